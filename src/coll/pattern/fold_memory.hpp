// Folding a range of all members' vectors where they are, by cross-memory attach.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "coll/pattern/fold.hpp"
#include "coll/pattern/move.hpp"

namespace tutti {

/// fold_from_memory() where all operands are folded at once: a piece of each of them is read.
inline Status fold_pieces_at_once(Collective& c, const void* own,
                                  const std::vector<Remote>& remotes, std::size_t begin,
                                  std::size_t bytes, std::byte* out) noexcept {
  constexpr std::size_t kPiece = std::size_t{16} << 10;
  const std::size_t piece = whole_elements(kPiece, c.call.reduction->element_bytes);
  Temporary pieces;
  TUTTI_TRY(pieces.allocate(c, piece * static_cast<std::size_t>(c.size())));
  for (std::size_t done = 0; done < bytes; done += piece) {
    const std::size_t n = std::min(piece, bytes - done);
    const std::size_t offset = begin + done;
    const auto piece_of = [&](int member) {
      return at(pieces.memory(), static_cast<std::size_t>(member) * piece);
    };
    for (int member = 0; member < c.size(); ++member) {
      if (member != c.rank())
        TUTTI_TRY(
            read_now(c, remotes[static_cast<std::size_t>(member)], offset, piece_of(member), n));
    }
    const auto vector_of = [&](int member) -> const std::byte* {
      return member == c.rank() ? at(own, offset) : piece_of(member);
    };
    c.fold_at_once(c.size(), vector_of, out + done, n);
  }
  return Status::success();
}

/// Folds [begin, begin + bytes) of all members' vectors in rank order into `out`, piece by piece so
/// that the operands stay in the cache. `own` is this member's vector, `remotes` the others' (by
/// member; the own entry is unused). `out` may be own + begin.
inline Status fold_from_memory(Collective& c, const void* own, const std::vector<Remote>& remotes,
                               std::size_t begin, std::size_t bytes, std::byte* out,
                               const Scratch& scratch) noexcept {
  if (c.at_once()) return fold_pieces_at_once(c, own, remotes, begin, bytes, out);
  // Two pieces of scratch: what is folded so far, and the operand just read.
  const std::size_t piece = whole_elements(scratch.bytes() / 2, c.call.reduction->element_bytes);
  std::byte* const result = scratch.memory();
  std::byte* const operand = result + piece;
  for (std::size_t done = 0; done < bytes; done += piece) {
    const std::size_t n = std::min(piece, bytes - done);
    const std::size_t offset = begin + done;
    Folder fold(c, result, n);
    for (int member = 0; member < c.size(); ++member) {
      if (member == c.rank()) {
        fold(at(own, offset));
        continue;
      }
      std::byte* const read = member == 0 ? result : operand;
      TUTTI_TRY(read_now(c, remotes[static_cast<std::size_t>(member)], offset, read, n));
      fold(read);
    }
    fold.finish();
    c.place(out + done, result, n);
  }
  return Status::success();
}

}  // namespace tutti
