#include "door.hpp"

NB_MODULE(_native, m) {
  m.doc() = "Sylvan's native kernels; imported by sylvan.kernels alone.";
  bind_arrays(m);
  bind_matching(m);
  bind_ranking(m);
  bind_indexing(m);
  bind_readers(m);
  bind_text(m);
}
