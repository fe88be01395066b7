// The losses that CANE is compared with, except the full softmax.
#include <cmath>

#include "classes/logarithms.hpp"
#include "classes/training.hpp"

namespace sylvan {

// Selects the target class, then noises drawn from a distribution that doesn't depend on the example.
double ClassTrainer::against_noise(const ClassRow& row, int32_t target, const ClassNoise& noise) {
  const bool with_hits = options_.loss == ClassLoss::nce;  // its theory needs every draw, hits included
  select(target);
  log_q_.push_back(bounded_log(noise_probability(noise, target)));
  for (int64_t i = 0; i < options_.n_noises; ++i) {
    const int32_t name = noise_at(noise, uniforms_.next());
    if (name == target && !with_hits) continue;
    select(name);
    log_q_.push_back(bounded_log(noise_probability(noise, name)));
  }
  score_selected(row, 0);
  coefficients_.resize(selected_.size());
  const bool is_softmax = options_.loss == ClassLoss::blackout;
  const double loss = is_softmax ? blackout() : logistic(with_hits);
  spread(is_softmax);
  return loss;
}

// The target is true, each noise false; NCE corrects scores by the expected number of such noises.
double ClassTrainer::logistic(bool corrected) {
  const double offset = options_.log_normalizer + std::log(static_cast<double>(options_.n_noises));
  double loss = 0.0;
  for (size_t i = 0; i < selected_.size(); ++i) {
    const double logit = static_cast<double>(scores_[i]) - (corrected ? offset + log_q_[i] : 0.0);
    loss += softplus(i == 0 ? -logit : logit);
    coefficients_[i] = i == 0 ? -sigmoid(-logit) : sigmoid(logit);
  }
  return loss;
}

// With p the softmax of scores weighted by 1/q, -ln p_y - sum of ln(1 - p_j) over the noises (Ji et al.,
// 2016). Its derivative by a score is p_i - [i = y] + [i noise] p_i - p_i sum of p_j / (1 - p_j) over noises
// j except i; 1 - p of the largest is computed as the sum of the others, or it would be lost where p rounds
// to 1.
double ClassTrainer::blackout() {
  const size_t n = selected_.size();
  noise_logits_.resize(n);
  size_t greatest = 0;
  for (size_t i = 0; i < n; ++i) {
    noise_logits_[i] = static_cast<double>(scores_[i]) - log_q_[i];
    if (noise_logits_[i] > noise_logits_[greatest]) greatest = i;
  }
  const double total = log_sum_exp(noise_logits_.data(), n);
  const double others = log_sum_exp(noise_logits_.data(), n, greatest);
  double loss = total - noise_logits_[0];
  double odds = 0.0;  // of the noises except the greatest
  for (size_t i = 1; i < n; ++i) {
    const double p = std::exp(noise_logits_[i] - total);
    if (i == greatest) {
      loss -= others - total;
    } else {
      loss -= std::log1p(-p);
      odds += p / (1.0 - p);
    }
  }
  for (size_t i = 0; i < n; ++i) {
    const double p = std::exp(noise_logits_[i] - total);
    double own = i == 0 ? p - 1.0 : 2.0 * p;
    own -= p * odds;
    if (i > 0 && i != greatest) own += p * (p / (1.0 - p));
    // p_i / (1 - p_greatest) is i's share among the others.
    if (greatest > 0 && i != greatest) {
      own -= std::exp(noise_logits_[greatest] - total) * std::exp(noise_logits_[i] - others);
    }
    coefficients_[i] = own;
  }
  return loss;
}

// A softmax at every node of the target's path, over its children.
double ClassTrainer::hierarchical_softmax(const ClassRow& row, int32_t target) {
  double loss = 0.0;
  for (int32_t edge = tree_.leaf_edge(target); edge >= 0; edge = tree_.parent(edge)) {
    const int64_t node = static_cast<int64_t>(tree_.parent(edge)) + 1;
    const int64_t first = tree_.first_child(node), n = tree_.first_child(node + 1) - first;
    if (n == 1) continue;
    missing_scores_.resize(static_cast<size_t>(n));
    float* scores = missing_scores_.data();
    score_edges(weights(), row, nullptr, first, n, scores);
    const double own = static_cast<double>(scores[edge - first]);
    const float most = largest(scores, n);
    const double sum = exponentials(scores, n, most);
    loss += static_cast<double>(most) + std::log(sum) - own;
    for (int64_t i = 0; i < n; ++i) {
      touch(first + i, static_cast<double>(scores[i]) / sum - (first + i == edge ? 1.0 : 0.0));
    }
  }
  return loss;
}

}  // namespace sylvan
