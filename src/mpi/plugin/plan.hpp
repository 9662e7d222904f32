// From the arguments of an MPI collective to a Call of the core.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/core.hpp"
#include "mpi/plugin/comm.hpp"
#include "mpi/plugin/datatype.hpp"
#include "mpi/plugin/scratch.hpp"
#include "mpi/plugin/staged.hpp"

namespace tutti::mpi {

/// The count or displacement array of Allgatherv, plain or large.
class CountList {
 public:
  explicit CountList(const int* narrow) : narrow_(narrow) {}
  explicit CountList(const MPI_Count* wide) : wide_(reinterpret_cast<const long long*>(wide)) {}
#if !defined(TUTTI_ABI_STANDARD)
  explicit CountList(const MPI_Aint* wide) : wide_(reinterpret_cast<const long long*>(wide)) {}
#endif
  bool null() const noexcept { return narrow_ == nullptr && wide_ == nullptr; }
  long long operator[](int i) const noexcept { return narrow_ != nullptr ? narrow_[i] : wide_[i]; }

 private:
  const int* narrow_ = nullptr;
  const long long* wide_ = nullptr;
};

#include "mpi/generated/collective_args.inc"

/// A run of elements in the user's memory.
struct Data {
  const TypeInfo* type = nullptr;
  char* user = nullptr;
  std::size_t count = 0;
  std::size_t bytes = 0;         // of data
  const Space* space = nullptr;  // where they lie; null: the processor reads them

  /// Nothing needs to be packed.
  bool dense() const { return (type->dense && space == nullptr) || count == 0; }
  /// Sets `space`.
  void locate() noexcept {
    space = nullptr;
    if (may_have_spaces()) [[unlikely]]
      space = find_space(*type, user, count);
  }
};

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
};

/// Whatever of a call goes beyond the user's own buffers. Holds references to its types.
struct Staging {
  Scratch scratch;
  std::size_t used = 0;
  std::vector<Transfer> before, after;
  std::vector<std::size_t> counts, displs;
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

 private:
  std::vector<const TypeInfo*> held_;
};

struct Plan {
  Call call;
  std::unique_ptr<Staging> staging;  // null for dense types, the common case

  /// Before the call starts (each time, when persistent): packs. Fails when a GPU's library does.
  Status begin() const noexcept {
    if (staging) [[unlikely]]
      return run(staging->before, true);
    return Status::success();
  }
  /// After it has completed: unpacks.
  Status finish() const noexcept {
    if (staging) [[unlikely]]
      return run(staging->after, false);
    return Status::success();
  }

 private:
  static Status run(const std::vector<Transfer>& transfers, bool packing) noexcept;
};

/// Why a call goes to the MPI; the order is that of kReasonNames in report.cpp.
enum class Reason : unsigned char {
  none,           // it does not: tutti takes it
  communicator,   // intercommunicator, one rank, several nodes, or not made through MPI calls
  user_operator,  // a user-defined operator in a non-blocking or persistent call
  no_kernel,      // a predefined operator on a type for which tutti has no kernel
  nobody,         // a message to or from MPI_PROC_NULL
  arguments,      // something is wrong with them, and the MPI shall say what
  no_memory,      // not passed on, for the other ranks would wait: an error of the call
  // For the report only: of `communicator`, what it is where that can be told; and calls that are
  // the MPI's in any case.
  one_rank,
  intercommunicator,
  not_served,
  one_sided,
  files,
  count_
};

/// Reason::none, or `arguments` when the MPI would call them wrong, or `no_memory`.
Reason read_data(const void* buffer, MPI_Count count, MPI_Datatype type, Data* out) noexcept;

/// The same elements at another address. False when the MPI would call that address wrong.
bool elsewhere(const Data& like, const void* buffer, Data* out) noexcept;

/// `count` blocks of the same type, one after the other; `block` describes one of them. False when
/// there can be no such data.
bool many(const Data& block, int count, Data* out) noexcept;

/// True when both describe the same elements, and this MPI calls that an error in this collective.
/// One that does not look must not be given the call: in rooted ones only the root knows of it.
bool aliased(Coll coll, const Data& send, const Data& recv) noexcept;
/// Finds out what it looks for. Errors of the MPI must be set to return.
void learn_argument_checks() noexcept;

/// Fills `*plan`. The answer is the same on all ranks of a correct program: it depends only on the
/// communicator, the operation, the class of the operator and the signature of the data. What else
/// it may be (`arguments`) is for programs that MPI calls wrong on this rank, `no_memory` for calls
/// that fail.
/// `blocking`: user-defined operators are possible.
Reason make_plan(const BarrierArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const BcastArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const ReduceArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const AllreduceArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const Reduce_scatter_blockArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const AllgatherArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const AllgathervArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const GatherArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const ScatterArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const AlltoallArgs& args, const Comm& comm, bool blocking, Plan* plan);

/// The fold of a user-defined operator, through PMPI_Reduce_local. Only on threads of the program.
void fold_user(const void* left, const void* right, void* out, std::size_t count,
               const Reduction& reduction);

}  // namespace tutti::mpi
