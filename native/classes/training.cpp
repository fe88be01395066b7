#include "classes/training.hpp"

#include <algorithm>
#include <cmath>

#include "classes/logarithms.hpp"

namespace sylvan {
namespace {

constexpr int kMaxRejections = 64;        // draws that hit candidates before the exact draw from all classes
constexpr double kMinOutsideMass = 1e-6;  // below this mass, 1 minus the candidates' share is too inexact

// The weights after step t are averaged with the factor t: the first steps, which are far from the end, count
// little, and no one needs to know how many steps there will be.
double sum_of_factors(uint64_t n) {
  const auto steps = static_cast<double>(n);
  return 0.5 * steps * (steps + 1.0);
}

}  // namespace

ClassTrainer::ClassTrainer(const ClassTree& tree, const ClassOptions& options, float* weights, float* squares,
                           float* delays, const EdgeShape& shape)
    : tree_(tree),
      options_(options),
      step_{shape, weights, squares, delays, 0.0f, options.decay, 0.0f},
      search_(tree, std::min(options.n_candidates, tree.n_classes()),
              options.own_scores ? NodeScore::own : NodeScore::path) {
  const auto n_edges = static_cast<size_t>(tree.n_edges());
  edge_scores_.resize(n_edges);
  scored_at_.resize(n_edges, 0);
  seen_ = {edge_scores_.data(), scored_at_.data(), 0};
  visits_.resize(n_edges, 0);
  edge_coefficients_.resize(n_edges);
  all_edges_ = options.loss == ClassLoss::softmax;
  if (all_edges_) dense_coefficients_.resize(n_edges);
  const auto n_candidates = static_cast<size_t>(std::min(options.n_candidates, tree.n_classes()));
  candidate_at_.resize(static_cast<size_t>(tree.n_classes()), 0);
  candidates_.resize(n_candidates);
  candidate_scores_.resize(n_candidates);
}

ClassSums ClassTrainer::train(const ClassExamples& examples, const ClassNoise& noise, float rate,
                              uint64_t step, uint64_t n_averaged) {
  ClassSums sums;
  step_.rate = rate;
  for (int64_t i = 0; i < examples.n; ++i) {
    const int64_t at = examples.order[i];
    const float weight = examples.row_weights ? examples.row_weights[at] : 1.0f;
    if (weight == 0.0f) continue;
    const ClassRow row = row_of(examples.rows, at);
    ++seen_.now;
    selected_.clear();
    log_q_.clear();
    double covered = 0.0;
    uniforms_ = UniformStream(options_.seed, step + static_cast<uint64_t>(i));
    const double loss = step_of(row, examples.classes[at], noise, &covered);
    step_.past = static_cast<float>(sum_of_factors(n_averaged + static_cast<uint64_t>(i)));
    update(row, weight);
    sums.loss += static_cast<double>(weight) * loss;
    sums.covered += static_cast<double>(weight) * covered;
    sums.weight += static_cast<double>(weight);
  }
  return sums;
}

// The loss of an example; its gradient is left in the coefficients of edges.
double ClassTrainer::step_of(const ClassRow& row, int32_t target, const ClassNoise& noise, double* covered) {
  switch (options_.loss) {
    case ClassLoss::cane:
      return cane(row, target, noise, covered);
    case ClassLoss::softmax:
      return softmax(row, target);
    case ClassLoss::hierarchical_softmax:
      return hierarchical_softmax(row, target);
    default:
      return against_noise(row, target, noise);
  }
}

// Scores of the selected classes from index `first` on; an edge that was scored before isn't scored again.
void ClassTrainer::score_selected(const ClassRow& row, size_t first) {
  missing_.clear();
  for (size_t i = first; i < selected_.size(); ++i) {
    for (int32_t edge = tree_.leaf_edge(selected_[i]); edge >= 0; edge = scored_above(edge)) {
      if (scored_at_[static_cast<size_t>(edge)] == seen_.now) continue;
      scored_at_[static_cast<size_t>(edge)] = seen_.now;
      missing_.push_back(edge);
    }
  }
  missing_scores_.resize(missing_.size());
  score_edges(weights(), row, missing_.data(), 0, static_cast<int64_t>(missing_.size()),
              missing_scores_.data());
  for (size_t i = 0; i < missing_.size(); ++i) {
    edge_scores_[static_cast<size_t>(missing_[i])] = missing_scores_[i];
  }
  scores_.resize(selected_.size());
  for (size_t i = first; i < selected_.size(); ++i) {
    int32_t path[kMaxLayers];
    int depth = 0;
    for (int32_t edge = tree_.leaf_edge(selected_[i]); edge >= 0; edge = scored_above(edge)) {
      path[depth++] = edge;
    }
    float sum = 0.0f;  // from the root down, in the search's order
    while (depth > 0) sum += edge_scores_[static_cast<size_t>(path[--depth])];
    scores_[i] = sum;
  }
}

// The coefficient of an edge is the sum of those of the selected classes below it (Eqs. 10 and 11). Where
// they add up to 0, an edge above all of them needs no step (Proposition 1).
void ClassTrainer::spread(bool add_up_to_zero) {
  for (size_t i = 0; i < selected_.size(); ++i) {
    for (int32_t edge = tree_.leaf_edge(selected_[i]); edge >= 0; edge = scored_above(edge)) {
      touch(edge, coefficients_[i]);
    }
  }
  if (!add_up_to_zero || options_.own_scores) return;
  for (const int32_t edge : touched_) {
    if (static_cast<size_t>(visits_[static_cast<size_t>(edge)]) == selected_.size()) {
      visits_[static_cast<size_t>(edge)] = -1;
    }
  }
}

void ClassTrainer::touch(int64_t edge, double coefficient) {
  const auto at = static_cast<size_t>(edge);
  if (visits_[at]++ == 0) {
    touched_.push_back(static_cast<int32_t>(edge));
    edge_coefficients_[at] = 0.0;
  }
  edge_coefficients_[at] += coefficient;
}

// One step for every touched edge.
void ClassTrainer::update(const ClassRow& row, float example_weight) {
  if (all_edges_) {
    update_all(row, example_weight);
    return;
  }
  updated_.clear();
  updated_coefficients_.clear();
  for (const int32_t edge : touched_) {
    const auto at = static_cast<size_t>(edge);
    if (visits_[at] > 0) {
      updated_.push_back(edge);
      updated_coefficients_.push_back(static_cast<float>(edge_coefficients_[at]) * example_weight);
    }
    visits_[at] = 0;
  }
  touched_.clear();
  step_edges(step_, row, updated_.data(), 0, static_cast<int64_t>(updated_.size()),
             updated_coefficients_.data());
}

void ClassTrainer::update_all(const ClassRow& row, float example_weight) {
  for (float& coefficient : dense_coefficients_) coefficient *= example_weight;
  for (int64_t layer = 0; layer < tree_.n_layers(); ++layer) {
    const int64_t first = tree_.layer_start(layer), n = tree_.layer_start(layer + 1) - first;
    if (n == 1) continue;  // on every path
    step_edges(step_, row, nullptr, first, n, dense_coefficients_.data() + first);
  }
}

// Eqs. (7) and (8): candidates by beam search, which doesn't know the target, and noises outside them.
double ClassTrainer::cane(const ClassRow& row, int32_t target, const ClassNoise& noise, double* covered) {
  search_.find(weights(), row, static_cast<int64_t>(candidates_.size()), candidates_.data(),
               candidate_scores_.data(), &seen_);
  double inside = 0.0;  // of the noise's mass
  size_t place = SIZE_MAX;
  for (size_t i = 0; i < candidates_.size() && candidates_[i] >= 0; ++i) {
    if (candidates_[i] == target) place = i;
    select(candidates_[i]);
    inside += noise_probability(noise, candidates_[i]);
  }
  const size_t n_candidates = selected_.size();
  scores_.assign(candidate_scores_.begin(),
                 candidate_scores_.begin() + static_cast<std::ptrdiff_t>(n_candidates));
  const double outside = outside_mass(noise, n_candidates, inside);
  *covered = place == SIZE_MAX ? 0.0 : 1.0;
  const double loss = options_.together ? cane_together(row, target, noise, place, outside)
                                        : cane_apart(row, target, noise, place, outside);
  spread(true);
  if (!options_.own_scores) return loss;
  const double finding = train_finder(row, target);
  return std::isfinite(finding) ? loss : finding;
}

// The mean of the losses that each noise alone would give; a target that is no candidate is the noise.
double ClassTrainer::cane_apart(const ClassRow& row, int32_t target, const ClassNoise& noise, size_t place,
                                double outside) {
  const size_t n_candidates = selected_.size();
  const double log_candidates = log_sum_exp(scores_.data(), n_candidates);
  if (place == SIZE_MAX) {
    select(target);
    score_selected(row, n_candidates);
    return cane_outside(n_candidates, log_candidates,
                        bounded_log(noise_probability(noise, target) / outside));
  }
  draw_noises(noise, outside);
  score_selected(row, n_candidates);
  return cane_inside(n_candidates, place, log_candidates);
}

// One softmax over the candidates and all noises, each of which stands for its share of the classes outside;
// a target that is no candidate takes the place of one of them.
double ClassTrainer::cane_together(const ClassRow& row, int32_t target, const ClassNoise& noise, size_t place,
                                   double outside) {
  const size_t n_candidates = selected_.size();
  if (place == SIZE_MAX) {
    place = n_candidates;
    select(target);
    log_q_.push_back(bounded_log(noise_probability(noise, target) / outside));
  }
  draw_noises(noise, outside);
  score_selected(row, n_candidates);
  const size_t n = selected_.size();
  const double log_n = n > n_candidates ? std::log(static_cast<double>(n - n_candidates)) : 0.0;
  noise_logits_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    noise_logits_[i] =
        static_cast<double>(scores_[i]) - (i < n_candidates ? 0.0 : log_q_[i - n_candidates] + log_n);
  }
  const double total = log_sum_exp(noise_logits_.data(), n);
  coefficients_.resize(n);
  for (size_t i = 0; i < n; ++i) coefficients_[i] = std::exp(noise_logits_[i] - total);
  coefficients_[place] -= 1.0;
  return total - static_cast<double>(scores_[place]);
}

// Noises outside the candidates, until there are as many as wanted.
void ClassTrainer::draw_noises(const ClassNoise& noise, double outside) {
  while (static_cast<int64_t>(log_q_.size()) < options_.n_noises && outside > 0.0) {
    const int32_t name = draw_outside(noise, outside);
    if (name < 0) return;  // the mass outside is a rounding error
    select(name);
    log_q_.push_back(bounded_log(noise_probability(noise, name) / outside));
  }
}

// In each layer above the classes a softmax over the edges that the beam followed and the one on the target's
// path. Returns the sum of their losses.
double ClassTrainer::train_finder(const ClassRow& row, int32_t target) {
  int32_t edge = tree_.leaf_edge(target);
  double loss = 0.0;
  for (size_t layer = search_.opened_ends().size(); layer-- > 0;) {
    edge = tree_.parent(edge);
    const size_t begin = layer == 0 ? 0 : search_.opened_ends()[layer - 1];
    finding_.assign(search_.opened().begin() + static_cast<std::ptrdiff_t>(begin),
                    search_.opened().begin() + static_cast<std::ptrdiff_t>(search_.opened_ends()[layer]));
    if (std::find(finding_.begin(), finding_.end(), edge) == finding_.end()) finding_.push_back(edge);
    const size_t n = finding_.size();
    finding_scores_.resize(n);
    for (size_t i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(finding_[i]);
      if (scored_at_[at] == seen_.now) {
        finding_scores_[i] = edge_scores_[at];
      } else {
        score_edges(weights(), row, &finding_[i], 0, 1, &finding_scores_[i]);
      }
    }
    const double total = log_sum_exp(finding_scores_.data(), n);
    for (size_t i = 0; i < n; ++i) {
      const double log_share = static_cast<double>(finding_scores_[i]) - total;
      if (finding_[i] == edge) loss -= log_share;
      if (n > 1) touch(finding_[i], std::exp(log_share) - (finding_[i] == edge ? 1.0 : 0.0));
    }
  }
  return loss;
}

double ClassTrainer::cane_outside(size_t n_candidates, double log_candidates, double log_q) {
  const double own = static_cast<double>(scores_.back());
  const double total = log_add(log_candidates, own - log_q);
  coefficients_.resize(selected_.size());
  for (size_t i = 0; i < n_candidates; ++i) {
    coefficients_[i] = std::exp(static_cast<double>(scores_[i]) - total);
  }
  coefficients_.back() = std::exp(own - log_q - total) - 1.0;
  return total - own;
}

double ClassTrainer::cane_inside(size_t n_candidates, size_t place, double log_candidates) {
  coefficients_.resize(selected_.size());
  const size_t n_noises = selected_.size() - n_candidates;
  const double each = n_noises > 0 ? 1.0 / static_cast<double>(n_noises) : 1.0;
  double loss = n_noises > 0 ? 0.0 : log_candidates;
  double share = n_noises > 0 ? 0.0 : 1.0;  // of the candidates in the denominators, on average
  for (size_t i = 0; i < n_noises; ++i) {
    const double noise = static_cast<double>(scores_[n_candidates + i]) - log_q_[i];
    const double total = log_add(log_candidates, noise);
    loss += each * total;
    share += each * std::exp(log_candidates - total);
    coefficients_[n_candidates + i] = each * std::exp(noise - total);
  }
  for (size_t i = 0; i < n_candidates; ++i) {
    coefficients_[i] = share * std::exp(static_cast<double>(scores_[i]) - log_candidates);
  }
  coefficients_[place] -= 1.0;
  return loss - static_cast<double>(scores_[place]);
}

// The noise's mass outside the candidates, which are the classes selected so far.
double ClassTrainer::outside_mass(const ClassNoise& noise, size_t n_candidates, double inside) {
  for (size_t i = 0; i < n_candidates; ++i) {
    candidate_at_[static_cast<size_t>(selected_[i])] = seen_.now;
  }
  if (noise.probabilities == nullptr) {
    return static_cast<double>(noise.n_classes - static_cast<int64_t>(n_candidates)) /
           static_cast<double>(noise.n_classes);
  }
  if (1.0 - inside >= kMinOutsideMass) return 1.0 - inside;
  double sum = 0.0;
  for (int64_t name = 0; name < noise.n_classes; ++name) {
    if (!is_candidate(name)) sum += noise.probabilities[name];
  }
  return sum;
}

// A noise outside the candidates by rejection; when nearly all draws are rejected, one more draw is inverted
// exactly over all classes.
int32_t ClassTrainer::draw_outside(const ClassNoise& noise, double outside) {
  for (int i = 0; i < kMaxRejections; ++i) {
    const int32_t name = noise_at(noise, uniforms_.next());
    if (!is_candidate(name)) return name;
  }
  const double mark = uniforms_.next() * outside;
  double sum = 0.0;
  int32_t last = -1;
  for (int64_t name = 0; name < noise.n_classes; ++name) {
    const double probability = noise_probability(noise, name);
    if (is_candidate(name) || !(probability > 0.0)) continue;
    last = static_cast<int32_t>(name);
    sum += probability;
    if (sum > mark) break;
  }
  return last;
}

// All classes (Eq. 1): scores are summed down the paths, and coefficients up.
double ClassTrainer::softmax(const ClassRow& row, int32_t target) {
  float* values = dense_coefficients_.data();
  const int64_t n_edges = tree_.n_edges(), first_leaf = tree_.first_leaf();
  score_edges(weights(), row, nullptr, 0, n_edges, values);
  for (int64_t edge = tree_.first_child(1); edge < n_edges; ++edge)
    values[edge] += values[tree_.parent(edge)];
  const int32_t own = tree_.leaf_edge(target);
  const double own_score = static_cast<double>(values[own]);
  float* leaves = values + first_leaf;
  const int64_t n_leaves = n_edges - first_leaf;
  const float most = largest(leaves, n_leaves);
  const double sum = exponentials(leaves, n_leaves, most);
  const auto scale = static_cast<float>(1.0 / sum);
  for (int64_t i = 0; i < n_leaves; ++i) leaves[i] *= scale;
  values[own] -= 1.0f;
  std::fill(values, leaves, 0.0f);
  for (int64_t edge = n_edges - 1; edge >= tree_.first_child(1); --edge) {
    values[tree_.parent(edge)] += values[edge];
  }
  return static_cast<double>(most) + std::log(sum) - own_score;
}

}  // namespace sylvan
