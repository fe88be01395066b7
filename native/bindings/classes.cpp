#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <atomic>
#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include "bindings/checks.hpp"
#include "classes/batch.hpp"
#include "classes/search.hpp"
#include "classes/training.hpp"

namespace {

// A tree and the arrays that it borrows from.
struct Tree {
  In<int64_t> child_starts;
  In<int32_t> leaf_classes;
  sylvan::ClassTree tree;
};

// Features as the kernels take them: one dense matrix, or three arrays of a compressed one.
struct Features {
  std::optional<In2<float>> dense;
  std::optional<In<int64_t>> indptr;
  std::optional<In<int32_t>> indices;
  std::optional<In<float>> values;
  int64_t n_rows = 0;
  int64_t n_features = 0;
};

// A trainer and the arrays that it updates; its tree is kept alive by the binding.
struct Trainer {
  Out2<float> weights;
  std::optional<Out2<float>> squares;
  std::optional<Out2<float>> delays;
  const sylvan::ClassTree& tree;
  int64_t n_features;
  float bias;
  sylvan::ClassTrainer trainer;
  std::atomic_flag busy = ATOMIC_FLAG_INIT;
};

void make_tree(Tree* self, In<int64_t> child_starts, In<int32_t> leaf_classes) {
  sylvan::ClassTree tree;
  const char* fault = nullptr;
  {
    nb::gil_scoped_release release;
    fault = tree.build(child_starts.data(), size(child_starts), leaf_classes.data(), size(leaf_classes));
  }
  need(fault == nullptr, fault);
  new (self) Tree{child_starts, leaf_classes, std::move(tree)};
}

void make_features(Features* self, std::optional<In2<float>> dense, std::optional<In<int64_t>> indptr,
                   std::optional<In<int32_t>> indices, std::optional<In<float>> values, int64_t n_features) {
  need(n_features >= 0 && n_features < INT32_MAX, "the number of features is out of range");
  if (dense) {
    need(static_cast<int64_t>(dense->shape(1)) == n_features, "the rows' width is another");
    const auto n_rows = static_cast<int64_t>(dense->shape(0));
    new (self) Features{dense, {}, {}, {}, n_rows, n_features};
    return;
  }
  need(indptr && indices && values && size(*indptr) >= 1 && size(*indices) == size(*values),
       "the arrays of compressed rows disagree");
  const int64_t n_rows = size(*indptr) - 1;
  {
    nb::gil_scoped_release release;
    const int64_t* starts = indptr->data();
    need(starts[0] >= 0 && starts[n_rows] <= size(*indices), "offsets are not offsets");
    for (int64_t i = 0; i < n_rows; ++i) need(starts[i] <= starts[i + 1], "offsets are not offsets");
    uint32_t greatest = 0;
    for (int64_t i = starts[0]; i < starts[n_rows]; ++i) {
      const auto index = static_cast<uint32_t>(indices->data()[i]);
      greatest = index > greatest ? index : greatest;
    }
    need(starts[0] == starts[n_rows] || greatest < static_cast<uint32_t>(n_features),
         "a feature is out of range");
  }
  new (self) Features{{}, indptr, indices, values, n_rows, n_features};
}

sylvan::ClassRows rows_of(const Features& features, float bias) {
  if (features.dense) return {features.n_features, features.dense->data(), nullptr, nullptr, nullptr, bias};
  return {features.n_features,     nullptr, features.indptr->data(), features.indices->data(),
          features.values->data(), bias};
}

// A matrix of weights, (n_edges, n_weights) or its transpose.
sylvan::EdgeShape shape_of(size_t n_rows, size_t n_columns, bool by_feature) {
  const auto rows = static_cast<int64_t>(n_rows), columns = static_cast<int64_t>(n_columns);
  return by_feature ? sylvan::EdgeShape{columns, rows, true} : sylvan::EdgeShape{rows, columns, false};
}

void need_shape(const sylvan::EdgeShape& shape, int64_t n_edges, int64_t n_features) {
  need(shape.n_edges == n_edges, "the weights must be of every edge");
  need(shape.n_weights == n_features + 1, "one weight a feature and one more are needed");
}

void rank_classes(const Tree& tree, In2<float> weights, bool by_feature, const Features& features, float bias,
                  int64_t first, int64_t last, int64_t beam, bool log_probabilities, bool own_scores,
                  Out2<int32_t> out_classes, Out2<float> out_scores, std::optional<Out<float>> out_log_sums) {
  const sylvan::EdgeShape shape = shape_of(weights.shape(0), weights.shape(1), by_feature);
  need_shape(shape, tree.tree.n_edges(), features.n_features);
  const auto k = static_cast<int64_t>(out_classes.shape(1));
  need(0 <= first && first <= last && last <= features.n_rows, "the rows are out of range");
  need(beam >= 1 && k >= 1, "the beam or k is out of range");
  need(!log_probabilities || !own_scores, "a score is a log-probability or its edge's own");
  need(static_cast<int64_t>(out_classes.shape(0)) == features.n_rows &&
           out_scores.shape(0) == out_classes.shape(0) && out_scores.shape(1) == out_classes.shape(1),
       "the outputs and the rows disagree");
  need(!out_log_sums || size(*out_log_sums) == features.n_rows, "the outputs and the rows disagree");
  nb::gil_scoped_release release;
  const sylvan::ClassRows rows = rows_of(features, bias);
  float* log_sums = out_log_sums ? out_log_sums->data() : nullptr;
  const sylvan::NodeScore score = own_scores          ? sylvan::NodeScore::own
                                  : log_probabilities ? sylvan::NodeScore::log_probability
                                                      : sylvan::NodeScore::path;
  if (!by_feature && features.dense && last - first > 1) {
    sylvan::ClassBatchSearch search(tree.tree, beam, score);
    search.find({weights.data(), shape}, rows, first, last,
                {k, out_classes.data(), out_scores.data(), log_sums});
    return;
  }
  sylvan::ClassSearch search(tree.tree, beam, score);
  for (int64_t row = first; row < last; ++row) {
    float* scores = out_scores.data() + row * k;
    search.find({weights.data(), shape}, sylvan::row_of(rows, row), k, out_classes.data() + row * k, scores,
                nullptr);
    if (log_sums) log_sums[row] = search.log_sum_of_reached(scores[0]);
  }
}

void score_edges(In2<float> weights, bool by_feature, const Features& features, float bias, int64_t first,
                 int64_t last, Out2<float> out) {
  const sylvan::EdgeShape shape = shape_of(weights.shape(0), weights.shape(1), by_feature);
  const int64_t n_edges = shape.n_edges;
  need_shape(shape, n_edges, features.n_features);
  need(0 <= first && first <= last && last <= features.n_rows, "the rows are out of range");
  need(static_cast<int64_t>(out.shape(0)) == last - first && static_cast<int64_t>(out.shape(1)) == n_edges,
       "the outputs and the rows disagree");
  nb::gil_scoped_release release;
  const sylvan::ClassRows rows = rows_of(features, bias);
  for (int64_t row = first; row < last; ++row) {
    sylvan::score_edges({weights.data(), shape}, sylvan::row_of(rows, row), nullptr, 0, n_edges,
                        out.data() + (row - first) * n_edges);
  }
}

void make_trainer(Trainer* self, const Tree& of, Out2<float> weights, bool by_feature,
                  std::optional<Out2<float>> squares, std::optional<Out2<float>> delays, int loss,
                  int64_t n_candidates, int64_t n_noises, bool together, bool own_scores,
                  double log_normalizer, float decay, float bias, uint64_t seed) {
  const sylvan::ClassTree& tree = of.tree;
  const sylvan::EdgeShape shape = shape_of(weights.shape(0), weights.shape(1), by_feature);
  need(shape.n_weights >= 1 && shape.n_weights <= INT32_MAX, "the weights' width is out of range");
  need_shape(shape, tree.n_edges(), shape.n_weights - 1);
  need(!squares || (squares->shape(0) == weights.shape(0) && squares->shape(1) == weights.shape(1)),
       "the squares and the weights disagree");
  need(!delays || (delays->shape(0) == weights.shape(0) && delays->shape(1) == weights.shape(1)),
       "the delays and the weights disagree");
  need(!delays || !squares, "AdaGrad doesn't average");
  need(loss >= 0 && loss <= 5, "there is no such loss");
  need(n_candidates >= 1 && n_noises >= 1 && n_noises <= INT32_MAX, "candidates or noises are out of range");
  const sylvan::ClassOptions options{static_cast<sylvan::ClassLoss>(loss),
                                     n_candidates,
                                     n_noises,
                                     together,
                                     own_scores,
                                     log_normalizer,
                                     decay,
                                     bias,
                                     seed};
  new (self) Trainer{weights,
                     squares,
                     delays,
                     tree,
                     shape.n_weights - 1,
                     bias,
                     sylvan::ClassTrainer(tree, options, weights.data(), squares ? squares->data() : nullptr,
                                          delays ? delays->data() : nullptr, shape)};
}

std::tuple<double, double, double> train(Trainer& self, const Features& features, In<int64_t> order,
                                         In<int32_t> classes, std::optional<In<float>> row_weights,
                                         std::optional<In<double>> probabilities,
                                         std::optional<In<double>> sums, std::optional<In<int32_t>> guide,
                                         float rate, uint64_t step, uint64_t n_averaged) {
  const int64_t n_classes = self.tree.n_classes();
  need(self.n_features == features.n_features, "the rows' width is not the weights'");
  need(size(classes) == features.n_rows && (!row_weights || size(*row_weights) == features.n_rows),
       "one class and one weight a row are needed");
  const bool uniform = !probabilities;
  need(uniform ? !sums && !guide
               : sums && guide && size(*probabilities) == n_classes && size(*sums) == n_classes &&
                     size(*guide) == n_classes,
       "the noise and the classes disagree");
  need(!self.busy.test_and_set(), "the trainer is in use");
  sylvan::ClassSums sums_of_losses;
  try {
    nb::gil_scoped_release release;
    for (int64_t i = 0; i < size(order); ++i) {
      const int64_t row = order.data()[i];
      need(row >= 0 && row < features.n_rows, "a row is out of range");
      need(classes.data()[row] >= 0 && classes.data()[row] < n_classes, "a class is out of range");
    }
    for (int64_t i = 0; !uniform && i < n_classes; ++i) {
      need(guide->data()[i] >= 0 && guide->data()[i] < n_classes, "the guide is out of range");
    }
    const sylvan::ClassNoise noise{n_classes, uniform ? nullptr : probabilities->data(),
                                   uniform ? nullptr : sums->data(), uniform ? nullptr : guide->data()};
    const sylvan::ClassExamples examples{rows_of(features, self.bias), size(order), order.data(),
                                         classes.data(), row_weights ? row_weights->data() : nullptr};
    sums_of_losses = self.trainer.train(examples, noise, rate, step, n_averaged);
  } catch (...) {
    self.busy.clear();
    throw;
  }
  self.busy.clear();
  return {sums_of_losses.loss, sums_of_losses.covered, sums_of_losses.weight};
}

}  // namespace

void bind_classes(nb::module_& m) {
  nb::class_<Tree>(m, "ClassTree", "A tree over classes; it refers to the arrays that it borrows.")
      .def("__init__", &make_tree, nb::arg("child_starts").noconvert(), nb::arg("leaf_classes").noconvert());
  nb::class_<Features>(m, "ClassFeatures",
                       "Rows of features, verified; it refers to the arrays that it borrows.")
      .def("__init__", &make_features, nb::arg("dense").noconvert().none(),
           nb::arg("indptr").noconvert().none(), nb::arg("indices").noconvert().none(),
           nb::arg("values").noconvert().none(), nb::arg("n_features"));
  nb::class_<Trainer>(m, "ClassTrainer",
                      "Updates the weights of a tree's edges, example by example; for one thread at a time.")
      .def("__init__", &make_trainer, nb::arg("tree"), nb::arg("weights").noconvert(), nb::arg("by_feature"),
           nb::arg("squares").noconvert().none(), nb::arg("delays").noconvert().none(), nb::arg("loss"),
           nb::arg("n_candidates"), nb::arg("n_noises"), nb::arg("together"), nb::arg("own_scores"),
           nb::arg("log_normalizer"), nb::arg("decay"), nb::arg("bias"), nb::arg("seed"),
           nb::keep_alive<1, 2>())
      .def("train", &train, nb::arg("features"), nb::arg("order").noconvert(), nb::arg("classes").noconvert(),
           nb::arg("row_weights").noconvert().none(), nb::arg("probabilities").noconvert().none(),
           nb::arg("sums").noconvert().none(), nb::arg("guide").noconvert().none(), nb::arg("rate"),
           nb::arg("step"), nb::arg("n_averaged"),
           "One step an example; sums of losses, of those covered, and of weights.");
  m.def("rank_classes", &rank_classes, nb::arg("tree"), nb::arg("weights").noconvert(), nb::arg("by_feature"),
        nb::arg("features"), nb::arg("bias"), nb::arg("first"), nb::arg("last"), nb::arg("beam"),
        nb::arg("log_probabilities"), nb::arg("own_scores"), nb::arg("out_classes").noconvert(),
        nb::arg("out_scores").noconvert(), nb::arg("out_log_sums").noconvert().none(),
        "The best classes of each row by beam search, and log(sum(exp)) of all that it reached.");
  m.def("score_class_edges", &score_edges, nb::arg("weights").noconvert(), nb::arg("by_feature"),
        nb::arg("features"), nb::arg("bias"), nb::arg("first"), nb::arg("last"), nb::arg("out").noconvert(),
        "The scores of all edges for each row.");
}
