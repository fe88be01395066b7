#include "bindings/bindings.hpp"

NB_MODULE(_native, m) {
  m.doc() = "Sylvan's native kernels; imported by sylvan.kernels alone.";
  nb::set_leak_warnings(false);  // a model that is alive when the interpreter exits is no leak
  bind_base(m);
  bind_buckets(m);
  bind_candidates(m);
  bind_classes(m);
  bind_io(m);
  bind_label_filter(m);
  bind_lexical(m);
  bind_linear_search(m);
  bind_linear_training(m);
  bind_text(m);
  bind_trees(m);
  bind_vectors(m);
  bind_vectors_clustering(m);
  bind_vectors_neighbors(m);
}
