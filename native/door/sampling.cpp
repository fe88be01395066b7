#include "../midx.hpp"

#include "checks.hpp"

namespace {

template <typename Id>
void midx_draw(In2<double> heights, In2<double> second, In2<float> log_first, In2<float> log_second,
               In<int64_t> offsets, In<double> masses, In<Id> order, In<double> in_cells,
               In<float> own_scores, In2<double> coins, Out2<int64_t> ids, Out2<float> log_q) {
  const auto n_queries = static_cast<int64_t>(heights.shape(0));
  const auto k = static_cast<int64_t>(heights.shape(1));
  const auto n_draws = static_cast<int64_t>(coins.shape(1));
  const auto has_shape = [](const auto& array, int64_t rows, int64_t columns) {
    return static_cast<int64_t>(array.shape(0)) == rows && static_cast<int64_t>(array.shape(1)) == columns;
  };
  need(0 < k && k < INT32_MAX && size(order) > 0, "there must be a codeword and a class");
  need(has_shape(second, n_queries, k) && has_shape(log_first, n_queries, k) &&
           has_shape(log_second, n_queries, k),
       "the scores disagree");
  need(has_shape(coins, n_queries, n_draws) && has_shape(ids, n_queries, n_draws) &&
           has_shape(log_q, n_queries, n_draws),
       "the draws disagree");
  need(size(masses) == k * k, "the masses disagree");
  const bool weighted = size(in_cells) > 0;
  need(size(own_scores) == size(in_cells) && (!weighted || size(in_cells) == size(order)),
       "the classes disagree");
  nb::gil_scoped_release release;
  need_offsets(offsets, k * k, size(order), "offsets are not offsets");
  const sylvan::MidxDraw draw{n_queries,
                              n_draws,
                              k,
                              size(order),
                              heights.data(),
                              second.data(),
                              log_first.data(),
                              log_second.data(),
                              offsets.data(),
                              masses.data(),
                              weighted ? in_cells.data() : nullptr,
                              weighted ? own_scores.data() : nullptr,
                              coins.data()};
  sylvan::midx_draw(draw, order.data(), ids.data(), log_q.data());
}

template <typename Id>
void bind_midx(nb::module_& m) {
  m.def("midx_draw", &midx_draw<Id>, nb::arg("heights").noconvert(), nb::arg("second").noconvert(),
        nb::arg("log_first").noconvert(), nb::arg("log_second").noconvert(), nb::arg("offsets").noconvert(),
        nb::arg("masses").noconvert(), nb::arg("order").noconvert(), nb::arg("in_cells").noconvert(),
        nb::arg("own_scores").noconvert(), nb::arg("coins").noconvert(), nb::arg("ids").noconvert(),
        nb::arg("log_q").noconvert(),
        "Draw classes in two stages from an inverted multi-index, with the log-probability of each.");
}

}  // namespace

void bind_sampling(nb::module_& m) {
  bind_midx<int32_t>(m);
  bind_midx<int64_t>(m);
}
