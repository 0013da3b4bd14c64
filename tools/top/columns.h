// Tables of `weir top`: columns that know their number and how it is written, so that a narrow
// terminal gets those worth most, and rows can be sorted by any.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/top/job.h"

namespace weir::tools::top {

// What of a look is shown, and how.
struct Shape {
  bool peers = false;
  std::size_t width = SIZE_MAX;  // of the terminal
  std::string sorted_by{};       // the title of a column; rows with the largest numbers first
  bool reversed = false;         // with the smallest first
  Wanted wanted{};               // these jobs only
};

template <typename Row>
struct Column {
  const char* title;
  std::size_t width;
  int rank;  // those with the lowest stay longest in a narrow terminal
  std::optional<double> (*value)(const Row&);
  std::string (*text)(const Row&, std::optional<double>);
};

template <typename Row>
std::vector<Column<Row>> fitting(std::span<const Column<Row>> all, std::size_t width) {
  std::vector<const Column<Row>*> order;
  for (const Column<Row>& column : all) order.push_back(&column);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->rank < b->rank; });
  std::size_t used = 0;
  std::vector<Column<Row>> shown;
  for (const Column<Row>* column : order) {
    if (column->width + 1 > width - used) continue;
    used += column->width + 1;
    shown.push_back(*column);
  }
  // In their order.
  const auto place = [&](const Column<Row>& column) {
    return std::find_if(all.begin(), all.end(),
                        [&](const Column<Row>& one) { return one.title == column.title; });
  };
  std::sort(shown.begin(), shown.end(),
            [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return shown;
}

template <typename Row>
void sort_rows(std::vector<Row>& rows, std::span<const Column<Row>> columns, const Shape& shape) {
  const auto by = std::find_if(columns.begin(), columns.end(), [&](const Column<Row>& column) {
    return shape.sorted_by == column.title;
  });
  if (by == columns.end()) return;
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    const double left = by->value(a).value_or(-1);
    const double right = by->value(b).value_or(-1);
    return shape.reversed ? left < right : left > right;
  });
}

template <typename Row>
std::string head_of(std::span<const Column<Row>> columns) {
  std::string line;
  for (const Column<Row>& column : columns) {
    line += fmt::format("{:>{}} ", column.title, column.width);
  }
  line.back() = '\n';
  return line;
}

template <typename Row>
std::string line_of(std::span<const Column<Row>> columns, const Row& row) {
  std::string line;
  for (const Column<Row>& column : columns) {
    line += fmt::format("{:>{}} ", column.text(row, column.value(row)), column.width);
  }
  line.pop_back();
  return line;
}

}  // namespace weir::tools::top
