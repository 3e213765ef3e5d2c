// SPDX-License-Identifier: Apache-2.0
// layered_drawing.cpp: layered (Sugiyama) layout and its SVG output.
#include "core/layered_drawing.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace cucore::detail {
namespace {

// Pixels, for a 12-pixel monospace font.
constexpr double kCharacter = 7.3;
constexpr double kLine = 16;
constexpr double kPadding = 8;
constexpr double kGapX = 24;
constexpr double kGapY = 34;
constexpr int kSweeps = 6;

/// Returns the number of characters of a UTF-8 text.
double length_of(std::string_view text) {
  return static_cast<double>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

void measure(Box& box) {
  double width = 0;
  for (const auto& line : box.lines) width = std::max(width, kCharacter * length_of(line));
  box.width = width + 2 * kPadding;
  box.height = kLine * static_cast<double>(box.lines.size()) + 2 * kPadding;
  for (const auto& [title, drawing] : box.inside) {
    box.width = std::max(
        {box.width, drawing.width + 2 * kPadding, kCharacter * length_of(title) + 4 * kPadding});
    box.height += drawing.height + kPadding + (title.empty() ? 0 : kLine);
  }
}

/// The layout of one drawing. The boxes after the drawing's own are dummies.
class Layout {
 public:
  explicit Layout(Drawing& drawing) : drawing_{drawing}, boxes_{drawing.boxes} {}

  void run() {
    for (Box& box : boxes_) measure(box);
    const std::size_t own = boxes_.size();
    assign_layers();
    make_chains();
    order_layers();
    place();
    route();
    boxes_.resize(own);
    for (const Box& box : boxes_) {
      drawing_.width = std::max(drawing_.width, box.x + box.width / 2);
      drawing_.height = std::max(drawing_.height, box.y + box.height);
    }
  }

 private:
  using Numbers = std::vector<std::size_t>;  // indices of boxes

  /// Longest-path layering: places every box one layer below the lowest of its predecessors.
  void assign_layers() {
    std::vector<Numbers> after(boxes_.size());
    Numbers waits(boxes_.size());
    for (const auto& [from, to] : drawing_.edges) {
      after[from].push_back(to);
      ++waits[to];
    }
    Numbers ready;
    for (std::size_t n = 0; n < boxes_.size(); ++n)
      if (waits[n] == 0) ready.push_back(n);
    for (std::size_t i = 0; i < ready.size(); ++i) {
      for (const std::size_t other : after[ready[i]]) {
        boxes_[other].layer = std::max(boxes_[other].layer, boxes_[ready[i]].layer + 1);
        if (--waits[other] == 0) ready.push_back(other);
      }
    }
    for (std::size_t n = 0; n < boxes_.size(); ++n) {
      if (layers_.size() <= boxes_[n].layer) layers_.resize(boxes_[n].layer + 1);
      layers_[boxes_[n].layer].push_back(n);
    }
  }

  /// Splits each edge into a chain of boxes in adjacent layers, with a dummy in each layer it
  /// crosses.
  void make_chains() {
    for (const auto& [from, to] : drawing_.edges) {
      Numbers chain{from};
      for (std::size_t layer = boxes_[from].layer + 1; layer < boxes_[to].layer; ++layer) {
        Box dummy;
        dummy.layer = layer;
        layers_[layer].push_back(boxes_.size());
        chain.push_back(boxes_.size());
        boxes_.push_back(std::move(dummy));
      }
      chain.push_back(to);
      chains_.push_back(std::move(chain));
    }
    above_.resize(boxes_.size());
    below_.resize(boxes_.size());
    for (const Numbers& chain : chains_) {
      for (std::size_t i = 1; i < chain.size(); ++i) {
        below_[chain[i - 1]].push_back(chain[i]);
        above_[chain[i]].push_back(chain[i - 1]);
      }
    }
  }

  /// Calls `visit` for the layers from top to bottom, then from bottom to top, and so on, with the
  /// neighbours in the previously visited layer.
  template <class Visit>
  void sweep(int sweeps, Visit visit) {
    for (int n = 0; n < sweeps; ++n) {
      const bool down = n % 2 == 0;
      const auto& near = down ? above_ : below_;
      for (std::size_t i = 0; i < layers_.size(); ++i)
        visit(layers_[down ? i : layers_.size() - 1 - i], near);
    }
  }

  /// Returns the mean of `value` over the neighbours of a box, or `alone` if there are none.
  template <class Value>
  static double mean(const Numbers& others, double alone, Value value) {
    if (others.empty()) return alone;
    double sum = 0;
    for (const std::size_t other : others) sum += value(other);
    return sum / static_cast<double>(others.size());
  }

  /// Reduces crossings: sorts each layer by the barycenters of its neighbours' positions.
  void order_layers() {
    std::vector<double> place(boxes_.size());
    const auto note = [&](const Numbers& layer) {
      for (std::size_t i = 0; i < layer.size(); ++i) place[layer[i]] = static_cast<double>(i);
    };
    for (const Numbers& layer : layers_) note(layer);
    std::vector<double> middle(boxes_.size());
    sweep(kSweeps, [&](Numbers& layer, const std::vector<Numbers>& near) {
      for (const std::size_t n : layer)
        middle[n] = mean(near[n], place[n], [&](std::size_t other) { return place[other]; });
      std::ranges::stable_sort(layer, {}, [&](std::size_t n) { return middle[n]; });
      note(layer);
    });
  }

  void place() {
    for (const Numbers& layer : layers_) {
      double x = 0;
      for (const std::size_t n : layer) {
        boxes_[n].x = x + boxes_[n].width / 2;
        x += boxes_[n].width + kGapX;
      }
    }
    sweep(2 * kSweeps, [&](Numbers& layer, const std::vector<Numbers>& near) {
      std::vector<double> wished;
      wished.reserve(layer.size());
      for (const std::size_t n : layer)
        wished.push_back(
            mean(near[n], boxes_[n].x, [&](std::size_t other) { return boxes_[other].x; }));
      spread(layer, wished);
    });
    double left = 0;
    for (bool is_first = true; const Box& box : boxes_) {
      left = is_first ? box.x - box.width / 2 : std::min(left, box.x - box.width / 2);
      is_first = false;
    }
    double y = 0;
    for (const Numbers& layer : layers_) {
      double height = 0;
      for (const std::size_t n : layer) {
        boxes_[n].x -= left;
        boxes_[n].y = y;
        height = std::max(height, boxes_[n].height);
      }
      heights_.push_back(height);
      y += height + kGapY;
    }
  }

  /// Places the boxes of a layer as close as possible to their preferred positions without overlap:
  /// the mean of a placement from the left and one from the right.
  void spread(const Numbers& layer, const std::vector<double>& wished) {
    std::vector<double> from_left = wished;
    std::vector<double> from_right = wished;
    const auto distance = [&](std::size_t i) {
      return (boxes_[layer[i]].width + boxes_[layer[i + 1]].width) / 2 + kGapX;
    };
    for (std::size_t i = 1; i < layer.size(); ++i)
      from_left[i] = std::max(wished[i], from_left[i - 1] + distance(i - 1));
    for (std::size_t i = layer.size(); i-- > 1;)
      from_right[i - 1] = std::min(wished[i - 1], from_right[i] - distance(i - 1));
    for (std::size_t i = 0; i < layer.size(); ++i)
      boxes_[layer[i]].x = (from_left[i] + from_right[i]) / 2;
  }

  void route() {
    for (const Numbers& chain : chains_) {
      const Box& first = boxes_[chain.front()];
      auto& points = drawing_.routes.emplace_back();
      points.emplace_back(first.x, first.y + first.height);
      for (std::size_t i = 1; i + 1 < chain.size(); ++i) {
        const Box& dummy = boxes_[chain[i]];
        points.emplace_back(dummy.x, dummy.y);
        points.emplace_back(dummy.x, dummy.y + heights_[dummy.layer]);
      }
      points.emplace_back(boxes_[chain.back()].x, boxes_[chain.back()].y);
    }
  }

  Drawing& drawing_;
  std::vector<Box>& boxes_;
  std::vector<Numbers> layers_;
  std::vector<Numbers> chains_;
  std::vector<Numbers> above_;  // neighbours of each box in the layer above
  std::vector<Numbers> below_;
  std::vector<double> heights_;  // heights of the layers
};

/// Writes SVG. The format of numbers does not depend on the locale, which a program may have set.
class Writer {
 public:
  std::string document(const Drawing& drawing) {
    const double width = std::max(drawing.width + 2 * kPadding, 80.0);
    const double height = std::max(drawing.height, kLine) + 2 * kPadding;
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" width=")", whole(width), R"(" height=")",
        whole(height), R"(" viewBox="0 0 )", whole(width), " ", whole(height),
        R"(" font-family="monospace" font-size="12" fill="#111">)", "\n",
        R"(<defs><marker id="cucore-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" )",
        R"(markerHeight="8" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>)",
        "\n");
    if (drawing.boxes.empty())
      add(R"(<text x=")", number(kPadding), R"(" y=")", number(kPadding + 12),
          R"(">no nodes</text>)", "\n");
    elements(drawing, kPadding, kPadding);
    add("</svg>\n");
    return std::move(text_);
  }

 private:
  template <class... Parts>
  void add(const Parts&... parts) {
    (text_.append(parts), ...);
  }

  static std::string number(double value, int digits = 1) {
    std::array<char, 64> room{};
    const auto end = std::to_chars(room.data(), room.data() + room.size(), value,
                                   std::chars_format::fixed, digits);
    return {room.data(), end.ptr};
  }
  static std::string whole(double value) { return number(value, 0); }

  static std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
      switch (c) {
        case '&':
          out += "&amp;";
          break;
        case '<':
          out += "&lt;";
          break;
        case '>':
          out += "&gt;";
          break;
        case '"':
          out += "&quot;";
          break;
        default:
          // Control characters are not allowed in XML.
          out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
      }
    }
    return out;
  }

  void elements(const Drawing& drawing, double dx, double dy) {
    for (const auto& route : drawing.routes) path(route, dx, dy);
    for (const Box& box : drawing.boxes) element(box, dx, dy);
  }

  /// Draws a smooth line with vertical ends.
  void path(const std::vector<std::pair<double, double>>& route, double dx, double dy) {
    const auto point = [&](double x, double y) { return number(x + dx) + "," + number(y + dy); };
    add(R"(<path d="M)", point(route.front().first, route.front().second));
    for (std::size_t i = 1; i < route.size(); ++i) {
      const auto [x0, y0] = route[i - 1];
      const auto [x1, y1] = route[i];
      const double middle = (y0 + y1) / 2;
      add("C", point(x0, middle), " ", point(x1, middle), " ", point(x1, y1));
    }
    add(R"x(" fill="none" stroke="#555" marker-end="url(#cucore-arrow)"/>)x", "\n");
  }

  void element(const Box& box, double dx, double dy) {
    const double left = box.x - box.width / 2 + dx;
    double y = box.y + dy;
    add(R"(<rect x=")", number(left), R"(" y=")", number(y), R"(" width=")", number(box.width),
        R"(" height=")", number(box.height), R"(" rx="5" fill=")", box.colour,
        R"(" stroke="#555"/>)", "\n");
    y += kPadding;
    for (bool is_first = true; const auto& line : box.lines) {
      add(R"(<text x=")", number(box.x + dx), R"(" y=")", number(y + 12),
          R"(" text-anchor="middle")", is_first ? R"( font-weight="bold")" : "", ">", escaped(line),
          "</text>\n");
      is_first = false;
      y += kLine;
    }
    for (const auto& [title, inner] : box.inside) {
      if (!title.empty()) {
        add(R"(<text x=")", number(left + kPadding), R"(" y=")", number(y + 12),
            R"(" font-style="italic">)", escaped(title), "</text>\n");
        y += kLine;
      }
      elements(inner, box.x + dx - inner.width / 2, y);
      y += inner.height + kPadding;
    }
  }

  std::string text_;
};

}  // namespace

Drawing arranged(std::vector<Box> boxes, std::vector<std::pair<std::size_t, std::size_t>> edges) {
  Drawing drawing{std::move(boxes), std::move(edges)};
  Layout{drawing}.run();
  return drawing;
}

std::string svg_of(const Drawing& drawing) { return Writer{}.document(drawing); }

}  // namespace cucore::detail
