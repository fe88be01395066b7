// Stochastic training of a linear classifier over a tree of classes, one example after the other: CANE (arXiv
// 1711.00658, Algorithm 2) and its baselines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "classes/draws.hpp"
#include "classes/edges.hpp"
#include "classes/search.hpp"
#include "classes/tree.hpp"

namespace sylvan {

enum class ClassLoss : int {
  cane = 0,
  softmax = 1,
  nce = 2,
  blackout = 3,
  negative_sampling = 4,
  hierarchical_softmax = 5
};

struct ClassOptions {
  ClassLoss loss;
  int64_t n_candidates;
  int64_t n_noises;
  bool together;          // CANE: one sum of all noises, not the mean of one loss for each
  bool own_scores;        // CANE: a class's score is its own edge's; those above are trained to find it
  double log_normalizer;  // of the scores, for NCE
  float decay;
  float bias;
  uint64_t seed;
};

// Sums over examples, each times its weight.
struct ClassSums {
  double loss = 0.0;
  double covered = 0.0;  // CANE: examples whose class was among the candidates
  double weight = 0.0;
};

// Examples: `order` has row numbers, all in range; each class is one of the tree's.
struct ClassExamples {
  ClassRows rows;
  int64_t n;
  const int64_t* order;
  const int32_t* classes;    // of each row
  const float* row_weights;  // of each row; null: all 1
};

class ClassTrainer {
 public:
  // squares: null for plain gradient descent; delays: null where it doesn't average.
  ClassTrainer(const ClassTree& tree, const ClassOptions& options, float* weights, float* squares,
               float* delays, const EdgeShape& shape);

  // One step per example; `step` steps were made before, of which the last `n_averaged` are in the average.
  ClassSums train(const ClassExamples& examples, const ClassNoise& noise, float rate, uint64_t step,
                  uint64_t n_averaged);

 private:
  double step_of(const ClassRow& row, int32_t target, const ClassNoise& noise, double* covered);
  double cane(const ClassRow& row, int32_t target, const ClassNoise& noise, double* covered);
  double cane_apart(const ClassRow& row, int32_t target, const ClassNoise& noise, size_t place,
                    double outside);
  double cane_together(const ClassRow& row, int32_t target, const ClassNoise& noise, size_t place,
                       double outside);
  void draw_noises(const ClassNoise& noise, double outside);
  double train_finder(const ClassRow& row, int32_t target);
  double cane_inside(size_t n_candidates, size_t place, double log_candidates);
  double cane_outside(size_t n_candidates, double log_candidates, double log_q);
  double outside_mass(const ClassNoise& noise, size_t n_candidates, double inside);
  int32_t draw_outside(const ClassNoise& noise, double outside);
  bool is_candidate(int64_t name) const { return candidate_at_[static_cast<size_t>(name)] == seen_.now; }
  double softmax(const ClassRow& row, int32_t target);
  double against_noise(const ClassRow& row, int32_t target, const ClassNoise& noise);
  double logistic(bool corrected);
  double blackout();
  double hierarchical_softmax(const ClassRow& row, int32_t target);

  // The next edge up whose score is a part of a class's, or -1.
  int32_t scored_above(int32_t edge) const { return options_.own_scores ? -1 : tree_.parent(edge); }
  void select(int32_t name) { selected_.push_back(name); }
  void score_selected(const ClassRow& row, size_t first);
  void spread(bool add_up_to_zero);
  void touch(int64_t edge, double coefficient);
  void update(const ClassRow& row, float example_weight);
  void update_all(const ClassRow& row, float example_weight);
  EdgeWeights weights() const { return {step_.weights, step_.shape}; }

  const ClassTree& tree_;
  ClassOptions options_;
  EdgeStep step_;
  ClassSearch search_;
  EdgeScores seen_;
  std::vector<float> edge_scores_;  // valid where scored_at_ is seen_.now
  std::vector<int64_t> scored_at_;

  // The current example: its selected classes, and what the loss needs for each.
  std::vector<int32_t> selected_;
  std::vector<float> scores_;
  std::vector<double> log_q_;         // of noises
  std::vector<double> coefficients_;  // the loss's derivative by each selected class's score
  std::vector<double> noise_logits_;
  UniformStream uniforms_{0, 0};
  std::vector<int64_t> candidate_at_;  // (n_classes) seen_.now of the candidates
  std::vector<int32_t> candidates_;
  std::vector<float> candidate_scores_;
  std::vector<int32_t>
      finding_;  // edges of a layer that the class's own is set off against, and their scores
  std::vector<float> finding_scores_;
  std::vector<int32_t> missing_;
  std::vector<float> missing_scores_;

  // The gradient: a coefficient for each touched edge, or for all of them.
  bool all_edges_ = false;
  std::vector<int32_t> touched_;
  std::vector<int32_t> visits_;  // (n_edges) paths through an edge; 0 between examples
  std::vector<double> edge_coefficients_;
  std::vector<int32_t> updated_;
  std::vector<float> updated_coefficients_;
  std::vector<float> dense_coefficients_;  // of all edges, with the full softmax
};

}  // namespace sylvan
