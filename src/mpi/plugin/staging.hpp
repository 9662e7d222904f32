// Packed data of a call, and what else it needs beyond the user's own buffers.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "coll/parcels.hpp"
#include "mpi/plugin/data.hpp"
#include "mpi/plugin/scratch.hpp"

namespace tutti::mpi {

/// Data that must be packed before the call or unpacked after it. `type` is null for as many bytes
/// as `count` says, which are only copied.
struct Transfer {
  const TypeInfo* type;
  char* user;
  std::size_t count;
  char* packed;
  const Space* space;
};

/// What a user-defined operator needs; the context of its Reduction.
struct UserReduction {
  MPI_Op op{};
  const TypeInfo* type = nullptr;
  int error = MPI_SUCCESS;  // the first that the operator met
  Reduction reduction;

  UserReduction() = default;
  UserReduction(const UserReduction&) = delete;
  UserReduction& operator=(const UserReduction&) = delete;
  ~UserReduction();
  /// Of a call that does not block: `blocks` packed operands of `count` elements will lie one
  /// behind the other at `at`, to be folded when they are there. Keeps the operator and its type,
  /// which the program may free before.
  void gather(char* at, int blocks, std::size_t count);
  /// Where fold_gathered() leaves the fold.
  char* result() const noexcept;

  char* gathered = nullptr;
  int blocks = 0;
  std::size_t count = 0;
  bool holds = false;
};

/// Whatever of a call goes beyond the user's own buffers. Holds references to its types.
struct Staging {
  Scratch scratch;
  std::size_t used = 0;
  std::vector<Transfer> before, after;
  std::vector<std::size_t> counts, displs;
  std::optional<Parcels> parcels;
  std::unique_ptr<UserReduction> user;

  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();
  void hold(const TypeInfo* type);
  /// Memory for everything that take() will be asked for. False: there is none.
  bool reserve(std::size_t bytes);
  /// Room for `bytes` of packed data.
  char* take(std::size_t bytes);
  void pack_before(const Data& data, char* packed);
  void unpack_after(const Data& data, char* packed);
  /// The same without regard to the type: `bytes` at the beginning of data in a GPU's memory.
  void copy_before(const Data& data, std::size_t bytes, char* copy);
  void copy_after(const Data& data, std::size_t bytes, char* copy);
  /// Carries them out. Fails when a GPU's library does.
  Status pack() const noexcept;
  Status unpack() const noexcept;

 private:
  std::vector<const TypeInfo*> held_;
};

/// The fold of a user-defined operator, through PMPI_Reduce_local. Only on threads of the program.
void fold_user(const void* left, const void* right, void* out, std::size_t count,
               const Reduction& reduction);
/// Folds what was gathered, in rank order. On a thread of the program.
Status fold_gathered(UserReduction& user) noexcept;

}  // namespace tutti::mpi
