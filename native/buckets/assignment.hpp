// Labels in buckets: where each label goes so that loads stay even, and the lists of what stands in a bucket.
#pragma once

#include <cstdint>

namespace sylvan {

enum class PlacingFault : int { none = 0, bucket_out_of_range = 1, nowhere_to_stay = 2 };

struct PlacingResult {
  PlacingFault fault;
  int64_t label;  // the first one at fault, -1 without one
};

// What each label would like, best bucket first. A choice of -1 is none; a label without any stays where it
// is.
struct Wishes {
  int64_t n_labels;
  int64_t n_choices;
  int64_t n_buckets;
  const int32_t* best;     // (n_labels, n_choices)
  const int32_t* current;  // (n_labels), -1 for nowhere; null where nothing is known
  int64_t room;  // below this load a label's best bucket takes it at once; 0 for strictly the emptiest
};

// Each label in turn to the least loaded of its choices: among equals the one where it is, else the best.
// `loads` (n_buckets) says what stands there already, and is counted on.
PlacingResult least_loaded(const Wishes& wishes, int64_t* loads, int32_t* out);

// The labels of each bucket, rising, from the bucket of each label (-1 for none): offsets (n_buckets + 1) and
// as many members as `offsets` ends at. Returns false when a bucket is out of range or the members are not
// n_members.
bool list_members(const int32_t* assignment, int64_t n_labels, int64_t n_buckets, int64_t n_members,
                  int64_t* offsets, int32_t* members);

// Whether the members of every bucket rise.
bool all_rise(const int64_t* offsets, int64_t n_buckets, const int32_t* members);

// Whether the lists say exactly what the assignment says; nothing is trusted.
bool same_members(const int32_t* assignment, int64_t n_labels, int64_t n_buckets, int64_t n_members,
                  const int64_t* offsets, const int32_t* members);

}  // namespace sylvan
