import Addressing
import Bytes
import Calling

/// The changes of a call in the column `held_call.changes`, with which another node continues the call.
///
/// Each change has one byte for its kind, four bytes for the length of its values, and its values as in the call journal.
/// All numbers are big-endian.
enum SharedCallChanges {
    private static let head = 5

    static func append(_ change: CallChange, to bytes: inout [UInt8]) {
        let start = bytes.count
        bytes.append(capacity: head + change.sizeHint) { out in
            out.append(change.kind.rawValue)
            out.append(big: 0, count: 4)
            out.append(change)
        }
        let length = UInt32(clamping: bytes.count - start - head)
        for place in 0..<4 { bytes[start + 1 + place] = UInt8(truncatingIfNeeded: length >> UInt32(24 - 8 * place)) }
    }

    /// The call after all changes; `nil` if the changes are malformed, or of a version that this version does not know.
    static func call(in bytes: [UInt8], request: ByteString) -> StoredCall? {
        var changes: [CallChange] = []
        var place = 0
        while place < bytes.count {
            var header = JournalReader(bytes, place..<min(place + head, bytes.count))
            let (kind, length) = (JournalEntry.Kind(rawValue: header.byte()), Int(header.number32()))
            guard let kind, !header.isBroken, length <= bytes.count - place - head else { return nil }
            var values = JournalReader(bytes, place + head..<place + head + length)
            guard let change = values.change(kind, of: 0) else { return nil }
            changes.append(change)
            place += head + length
        }
        return StoredCall(changes: changes, request: request)
    }
}
