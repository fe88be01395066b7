// Assigns labels to buckets with balanced loads, and lists the members of each bucket.
#pragma once

#include <cstdint>

namespace sylvan {

enum class PlacementFault : int { none = 0, bucket_out_of_range = 1, no_bucket = 2 };

struct PlacementResult {
  PlacementFault fault;
  int64_t label;  // the first one at fault, -1 without one
};

// Each label's candidate buckets, best first. A choice of -1 is none; a label without any stays where it is.
struct BucketChoices {
  int64_t n_labels;
  int64_t n_choices;
  int64_t n_buckets;
  const int32_t* best;     // (n_labels, n_choices)
  const int32_t* current;  // (n_labels), -1 for none; null when there is no assignment yet
  int64_t room;  // below this load the best bucket takes a label at once; 0: strictly the least loaded
};

// Assigns each label in turn to the least loaded of its choices; among equals it stays where it is, else the
// best wins. `loads` (n_buckets) holds the labels assigned before, and is updated.
PlacementResult least_loaded(const BucketChoices& choices, int64_t* loads, int32_t* out);

// The labels of each bucket, ascending, from the bucket of each label (-1 for none): offsets (n_buckets + 1)
// and as many members as the last offset says. Returns false when a bucket is out of range or the members are
// not n_members.
bool list_members(const int32_t* assignment, int64_t n_labels, int64_t n_buckets, int64_t n_members,
                  int64_t* offsets, int32_t* members);

// Whether the members of every bucket are strictly ascending.
bool all_sorted(const int64_t* offsets, int64_t n_buckets, const int32_t* members);

// Whether the lists agree exactly with the assignment; nothing is trusted.
bool same_members(const int32_t* assignment, int64_t n_labels, int64_t n_buckets, int64_t n_members,
                  const int64_t* offsets, const int32_t* members);

}  // namespace sylvan
