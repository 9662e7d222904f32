// User-defined operators. The core folds packed data; the operator wants its own type in memory.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "mpi/plugin/held.hpp"
#include "mpi/plugin/staging.hpp"

namespace tutti::mpi {
namespace {

bool aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

// inout = in (op) inout.
void reduce(UserReduction& user, const char* in, char* inout, std::size_t count) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // PMPI_Reduce_local counts with an int
  while (count > 0 && user.error == MPI_SUCCESS) {
    const std::size_t step = std::min(count, kMost);
    user.error = native.Reduce_local(in, inout, static_cast<int>(step), user.type->handle, user.op);
    in += static_cast<std::ptrdiff_t>(step) * user.type->extent;
    inout += static_cast<std::ptrdiff_t>(step) * user.type->extent;
    count -= step;
  }
}

void fold_dense(UserReduction& user, const char* left, const char* right, char* out,
                std::size_t count) {
  const std::size_t bytes = count * user.type->size;
  if (aligned(left) && aligned(out) && left != out) {
    if (right != out) std::memcpy(out, right, bytes);
    reduce(user, left, out, count);
    return;
  }
  const std::size_t padded = (bytes + 63) / 64 * 64;
  Scratch copy(2 * padded);
  if (copy.data() == nullptr) {
    user.error = MPI_ERR_NO_MEM;
    return;
  }
  std::memcpy(copy.data(), left, bytes);
  std::memcpy(copy.data() + padded, right, bytes);
  reduce(user, copy.data(), copy.data() + padded, count);
  std::memcpy(out, copy.data() + padded, bytes);
}

void fold_sparse(UserReduction& user, const char* left, const char* right, char* out,
                 std::size_t count) {
  MPI_Aint true_lb = 0, true_extent = 0;
  native.Type_get_true_extent(user.type->handle, &true_lb, &true_extent);
  const std::ptrdiff_t reach = static_cast<std::ptrdiff_t>(count - 1) * user.type->extent;
  const std::size_t span = static_cast<std::size_t>(true_extent + (reach < 0 ? -reach : reach));
  const std::size_t padded = (span + 63) / 64 * 64;
  Scratch images(2 * padded);
  if (images.data() == nullptr) {
    user.error = MPI_ERR_NO_MEM;
    return;
  }
  char* in = images.data() - true_lb - std::min<std::ptrdiff_t>(reach, 0);
  char* inout = in + padded;
  unpack(*user.type, left, count, in);
  unpack(*user.type, right, count, inout);
  reduce(user, in, inout, count);
  pack(*user.type, inout, count, out);
}

}  // namespace

void fold_user(const void* left, const void* right, void* out, std::size_t count,
               const Reduction& reduction) {
  UserReduction& user = *static_cast<UserReduction*>(reduction.context);
  if (count == 0 || user.type->size == 0) return;
  const auto fold = user.type->dense ? fold_dense : fold_sparse;
  fold(user, static_cast<const char*>(left), static_cast<const char*>(right),
       static_cast<char*>(out), count);
}

void UserReduction::gather(char* at, int how_many, std::size_t elements) {
  hold_op(op);
  hold_type(*type);
  holds = true;
  gathered = at;
  blocks = how_many;
  count = elements;
}

UserReduction::~UserReduction() {
  if (!holds) return;
  drop_op(op);
  drop_type(*type);
}

char* UserReduction::result() const noexcept {
  return gathered + static_cast<std::size_t>(blocks - 1) * count * type->size;
}

Status fold_gathered(UserReduction& user) noexcept {
  const std::size_t bytes = user.count * user.type->size;
  for (int i = 1; i < user.blocks && user.error == MPI_SUCCESS; ++i) {
    char* const right = user.gathered + static_cast<std::size_t>(i) * bytes;
    fold_user(right - bytes, right, right, user.count, user.reduction);
  }
  if (user.error == MPI_SUCCESS) return Status::success();
  const bool memory = user.error == MPI_ERR_NO_MEM;
  user.error = MPI_SUCCESS;  // a persistent call may be started again
  return memory ? Status::error(Code::no_memory, "no memory for the operands of an operator")
                : Status::error(Code::invalid_argument, "MPI_Reduce_local refuses an operator");
}

}  // namespace tutti::mpi
