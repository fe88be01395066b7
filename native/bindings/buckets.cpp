#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <atomic>
#include <new>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/checks.hpp"
#include "buckets/assignment.hpp"
#include "buckets/search.hpp"

namespace {

template <typename T>
using In3 = nb::ndarray<const T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

// The lists of all repetitions; owns a reference to the arrays that the kernel borrows.
struct BucketLists {
  In2<int64_t> offsets;
  In2<int32_t> members;
  sylvan::BucketView view;
};

// A workspace; it refuses a second thread.
struct Counters {
  sylvan::BucketCounters counters;
  std::atomic_flag busy = ATOMIC_FLAG_INIT;
};

void make_lists(BucketLists* self, In2<int64_t> offsets, In2<int32_t> members, int64_t n_labels) {
  const auto n_repetitions = static_cast<int64_t>(offsets.shape(0));
  const int64_t n_buckets = static_cast<int64_t>(offsets.shape(1)) - 1;
  const auto n_members = static_cast<int64_t>(members.shape(1));
  need(n_labels >= 0 && n_labels <= INT32_MAX && n_buckets >= 1 && n_buckets <= INT32_MAX,
       "the sizes are out of range");
  need(n_repetitions >= 1 && n_repetitions <= 65535 &&
           static_cast<int64_t>(members.shape(0)) == n_repetitions && n_members <= n_labels,
       "offsets and members disagree");
  bool sorted = true;
  {
    nb::gil_scoped_release release;
    for (int64_t r = 0; r < n_repetitions; ++r) {
      const int64_t* row = offsets.data() + r * (n_buckets + 1);
      need(row[0] == 0 && row[n_buckets] == n_members, "offsets are not offsets");
      for (int64_t b = 0; b < n_buckets; ++b) need(row[b] <= row[b + 1], "offsets are not offsets");
    }
    uint32_t greatest = 0;
    for (int64_t i = 0; i < size(members); ++i) {
      const auto member = static_cast<uint32_t>(members.data()[i]);
      greatest = member > greatest ? member : greatest;
    }
    need(size(members) == 0 || greatest < static_cast<uint32_t>(n_labels), "a member is out of range");
    for (int64_t r = 0; r < n_repetitions; ++r) {
      sorted &=
          sylvan::all_sorted(offsets.data() + r * (n_buckets + 1), n_buckets, members.data() + r * n_members);
    }
  }
  new (self)
      BucketLists{offsets,
                  members,
                  {n_labels, n_repetitions, n_buckets, n_members, offsets.data(), members.data(), sorted}};
}

void make_counters(Counters* self, int64_t n_labels, int64_t n_buckets, int64_t n_repetitions) {
  need(n_labels >= 0 && n_labels <= INT32_MAX && n_buckets >= 1 && n_buckets <= INT32_MAX &&
           n_repetitions >= 1 && n_repetitions <= 65535,
       "the sizes are out of range");
  new (self) Counters{sylvan::BucketCounters(n_labels, n_buckets, n_repetitions)};
}

using Candidates =
    std::tuple<int64_t, Array<int64_t>, Array<int64_t>, Array<int32_t>, Array<int32_t>, Array<float>>;

Candidates bucket_candidates(const BucketLists& lists, Counters& workspace, In3<int32_t> chosen,
                             In3<float> probabilities, int64_t first, int64_t last, int64_t min_votes,
                             bool by_votes, int64_t limit, bool sorted) {
  const auto n_probes = static_cast<int64_t>(chosen.shape(2));
  const int64_t width = lists.view.n_repetitions * n_probes;
  need(0 <= first && first <= last && last <= static_cast<int64_t>(chosen.shape(0)),
       "the queries are out of range");
  need(static_cast<int64_t>(chosen.shape(1)) == lists.view.n_repetitions, "one row a repetition is needed");
  for (int axis = 0; axis < 3; ++axis) {
    need(chosen.shape(axis) == probabilities.shape(axis), "buckets and probabilities disagree");
  }
  need(min_votes >= 0 && min_votes <= INT32_MAX && limit >= 0, "min_votes or limit is out of range");
  need(workspace.counters.n_labels() == lists.view.n_labels &&
           workspace.counters.n_buckets() == lists.view.n_buckets &&
           workspace.counters.n_repetitions() == lists.view.n_repetitions,
       "the counters are of other buckets");
  need(!workspace.busy.test_and_set(), "the counters are in use");
  sylvan::BucketCandidates found;
  int64_t fault = -1;
  try {
    nb::gil_scoped_release release;
    const sylvan::Probes probes{last - first, n_probes, chosen.data() + first * width,
                                probabilities.data() + first * width};
    fault = workspace.counters.find(lists.view, probes,
                                    {static_cast<uint32_t>(min_votes), by_votes, limit, sorted}, found);
  } catch (...) {
    workspace.busy.clear();
    throw;
  }
  workspace.busy.clear();
  return {fault < 0 ? fault : first + fault,  to_array(std::move(found.counts)),
          to_array(std::move(found.touched)), to_array(std::move(found.labels)),
          to_array(std::move(found.votes)),   to_array(std::move(found.scores))};
}

std::pair<int, int64_t> least_loaded(In2<int32_t> best, std::optional<In<int32_t>> current, int64_t room,
                                     Out<int64_t> loads, Out<int32_t> out) {
  const auto n_labels = static_cast<int64_t>(best.shape(0));
  need(size(loads) >= 1 && size(loads) <= INT32_MAX, "the number of buckets is out of range");
  need(size(out) == n_labels && (!current || size(*current) == n_labels), "one place a label is needed");
  nb::gil_scoped_release release;
  const sylvan::PlacementResult result =
      sylvan::least_loaded({n_labels, static_cast<int64_t>(best.shape(1)), size(loads), best.data(),
                            current ? current->data() : nullptr, room},
                           loads.data(), out.data());
  return {static_cast<int>(result.fault), result.label};
}

bool list_members(In<int32_t> assignment, Out<int64_t> offsets, Out<int32_t> members) {
  need(size(offsets) >= 2 && size(assignment) <= INT32_MAX, "the sizes are out of range");
  nb::gil_scoped_release release;
  return sylvan::list_members(assignment.data(), size(assignment), size(offsets) - 1, size(members),
                              offsets.data(), members.data());
}

bool same_members(In<int32_t> assignment, In<int64_t> offsets, In<int32_t> members) {
  need(size(offsets) >= 2 && size(assignment) <= INT32_MAX, "the sizes are out of range");
  nb::gil_scoped_release release;
  return sylvan::same_members(assignment.data(), size(assignment), size(offsets) - 1, size(members),
                              offsets.data(), members.data());
}

}  // namespace

void bind_buckets(nb::module_& m) {
  nb::class_<BucketLists>(m, "BucketLists",
                          "The inverted lists of all repetitions; it refers to the arrays that it borrows.")
      .def("__init__", &make_lists, nb::arg("offsets").noconvert(), nb::arg("members").noconvert(),
           nb::arg("n_labels"));
  nb::class_<Counters>(m, "BucketCounters",
                       "The workspace of counting, reused between calls, by one thread at a time.")
      .def("__init__", &make_counters, nb::arg("n_labels"), nb::arg("n_buckets"), nb::arg("n_repetitions"));
  m.def("bucket_candidates", &bucket_candidates, nb::arg("lists"), nb::arg("counters"),
        nb::arg("chosen").noconvert(), nb::arg("probabilities").noconvert(), nb::arg("first"),
        nb::arg("last"), nb::arg("min_votes"), nb::arg("by_votes"), nb::arg("limit"), nb::arg("sorted"),
        "The labels of queries' buckets: a query at fault or -1, counts, increments, labels, votes, scores.");
  m.def("least_loaded", &least_loaded, nb::arg("best").noconvert(), nb::arg("current").noconvert().none(),
        nb::arg("room"), nb::arg("loads").noconvert(), nb::arg("out").noconvert(),
        "Each label in turn to the least loaded of its best buckets; fault code and label.");
  m.def("list_members", &list_members, nb::arg("assignment").noconvert(), nb::arg("offsets").noconvert(),
        nb::arg("members").noconvert(), "The labels of each bucket; False when the sizes disagree.");
  m.def("same_members", &same_members, nb::arg("assignment").noconvert(), nb::arg("offsets").noconvert(),
        nb::arg("members").noconvert(), "Whether lists say exactly what an assignment says.");
}
