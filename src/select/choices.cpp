// The choices that teams of one shape share.
#include <algorithm>

#include "select/rules.hpp"
#include "select/select.hpp"

namespace tutti {

Shape Choices::shape(Coll coll, OperatorClass operators) const noexcept {
  Shape shape = shape_;
  shape.coll = coll;
  shape.divisible = operators != OperatorClass::whole;
  // What is folded whole may be of either kind.
  shape.at_once = operators == OperatorClass::at_once;
  shape.commutative = operators == OperatorClass::divisible || shape.at_once;
  return shape;
}

Shape Choices::shape_of(const Call& call) const noexcept {
  Shape shape = this->shape(call.coll, class_of(call));
  shape.bytes = shape.longest_block = call.coll == Coll::barrier ? 0 : call.bytes;
  return shape;
}

std::unique_ptr<ChoiceTable> Choices::make(Coll coll, OperatorClass operators) const {
  return std::make_unique<ChoiceTable>(shape(coll, operators), forced_, site_);
}

Choices& ChoicesByShape::of(const Shape& shape) {
  // Few, and the one of the last communicator is the likeliest.
  const auto known = std::find_if(all_.rbegin(), all_.rend(),
                                  [&](const auto& choices) { return choices->shape() == shape; });
  if (known != all_.rend()) return **known;
  all_.push_back(std::make_unique<Choices>(shape, forced_, &site_));
  return *all_.back();
}

}  // namespace tutti
