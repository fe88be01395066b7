#include "door.hpp"

NB_MODULE(_native, m) {
  m.doc() = "Sylvan's native kernels; imported by sylvan.kernels alone.";
  nb::set_leak_warnings(false);  // a model that a script still holds when the interpreter ends is no leak
  bind_arrays(m);
  bind_buckets(m);
  bind_classes(m);
  bind_importers(m);
  bind_indexing(m);
  bind_joining(m);
  bind_labels(m);
  bind_matching(m);
  bind_neighbors(m);
  bind_ranking(m);
  bind_readers(m);
  bind_sampling(m);
  bind_text(m);
  bind_vectors(m);
}
