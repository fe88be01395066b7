#include "buckets/assignment.hpp"

#include <algorithm>

namespace sylvan {

PlacementResult least_loaded(const BucketChoices& choices, int64_t* loads, int32_t* out) {
  for (int64_t label = 0; label < choices.n_labels; ++label) {
    const int32_t* best = choices.best + label * choices.n_choices;
    const int32_t here = choices.current ? choices.current[label] : -1;
    if (here < -1 || here >= choices.n_buckets) return {PlacementFault::bucket_out_of_range, label};
    int32_t to = -1;
    bool settled = false;
    for (int64_t i = 0; i < choices.n_choices; ++i) {
      const int32_t bucket = best[i];
      if (bucket < -1 || bucket >= choices.n_buckets) return {PlacementFault::bucket_out_of_range, label};
      if (bucket < 0 || settled) continue;
      const int64_t load = loads[bucket];
      settled = load < choices.room;
      if (to < 0 || settled || load < loads[to] || (load == loads[to] && bucket == here)) to = bucket;
    }
    if (to < 0) {  // no choice: it stays
      if (here < 0 && !choices.current) return {PlacementFault::no_bucket, label};
      to = here;
    }
    out[label] = to;
    if (to >= 0) ++loads[to];
  }
  return {PlacementFault::none, -1};
}

bool list_members(const int32_t* assignment, int64_t n_labels, int64_t n_buckets, int64_t n_members,
                  int64_t* offsets, int32_t* members) {
  std::fill(offsets, offsets + n_buckets + 1, 0);
  int64_t n_placed = 0;
  for (int64_t label = 0; label < n_labels; ++label) {
    const int32_t bucket = assignment[label];
    if (bucket < -1 || bucket >= n_buckets) return false;
    if (bucket < 0) continue;
    ++offsets[bucket];
    ++n_placed;
  }
  if (n_placed != n_members) return false;
  int64_t start = 0;  // counts become starts, and starts become ends as the lists fill
  for (int64_t bucket = 0; bucket <= n_buckets; ++bucket) {
    const int64_t count = offsets[bucket];
    offsets[bucket] = start;
    start += count;
  }
  for (int64_t label = 0; label < n_labels; ++label) {
    if (assignment[label] >= 0) members[offsets[assignment[label]]++] = static_cast<int32_t>(label);
  }
  for (int64_t bucket = n_buckets; bucket > 0; --bucket) offsets[bucket] = offsets[bucket - 1];
  offsets[0] = 0;
  return true;
}

bool all_sorted(const int64_t* offsets, int64_t n_buckets, const int32_t* members) {
  bool sorted = true;
  for (int64_t bucket = 0; bucket < n_buckets; ++bucket) {
    for (int64_t i = offsets[bucket] + 1; i < offsets[bucket + 1]; ++i) sorted &= members[i - 1] < members[i];
  }
  return sorted;
}

bool same_members(const int32_t* assignment, int64_t n_labels, int64_t n_buckets, int64_t n_members,
                  const int64_t* offsets, const int32_t* members) {
  if (offsets[0] != 0 || offsets[n_buckets] != n_members) return false;
  for (int64_t bucket = 0; bucket < n_buckets; ++bucket) {
    if (offsets[bucket] > offsets[bucket + 1] || offsets[bucket + 1] > n_members) return false;
    int64_t before = -1;
    for (int64_t i = offsets[bucket]; i < offsets[bucket + 1]; ++i) {
      if (members[i] <= before || members[i] >= n_labels || assignment[members[i]] != bucket) return false;
      before = members[i];
    }
  }
  // Sorted lists whose labels are all assigned to that bucket repeat no label: equal numbers mean none is
  // missing.
  int64_t n_placed = 0;
  for (int64_t label = 0; label < n_labels; ++label) n_placed += assignment[label] >= 0;
  return n_placed == n_members;
}

}  // namespace sylvan
