-- wrk's script: asks for the texts of a file in turn, and writes what was measured as JSON.
-- wrk -s wrk.lua URL -- PATH CONTENT_TYPE BODIES OUT count|fast

local requests, at, counting = {}, 0, false

function init(arguments)
   local path, kind, bodies = arguments[1], arguments[2], arguments[3]
   for body in io.lines(bodies) do
      requests[#requests + 1] = wrk.format("POST", path, {["Content-Type"] = kind}, body)
   end
   out = arguments[4]
   counting = arguments[5] == "count"
   statuses = {}
   if counting then
      -- With such a function wrk hands over every header and body, which costs it time.
      response = function(status)
         statuses[status] = (statuses[status] or 0) + 1
      end
   end
end

function request()
   at = at % #requests + 1
   return requests[at]
end

local threads = {}

function setup(thread)
   threads[#threads + 1] = thread
end

local function listed(values)
   return "[" .. table.concat(values, ",") .. "]"
end

function done(summary, latency)
   local codes = {}
   for status, count in pairs(threads[1]:get("statuses")) do
      codes[#codes + 1] = string.format('"%d":%d', status, count)
   end
   local values, counts = {}, {}
   -- Not where statuses were counted: each look at a latency goes through all shorter ones, which takes minutes there.
   for index = 1, #codes > 0 and 0 or #latency do
      local value, count = latency(index)
      values[index], counts[index] = string.format("%d", value), string.format("%d", count)
   end
   local errors = summary.errors
   local file = assert(io.open(threads[1]:get("out"), "w"))
   file:write(string.format(
      '{"requests":%d,"microseconds":%d,"bytes":%d,"failed":%d,"timeouts":%d,"bad_statuses":%d,'
         .. '"statuses":{%s},"values":%s,"counts":%s}\n',
      summary.requests, summary.duration, summary.bytes, errors.connect + errors.read + errors.write, errors.timeout,
      errors.status, table.concat(codes, ","), listed(values), listed(counts)))
   file:close()
end
