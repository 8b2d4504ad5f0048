import Addressing
import Bytes
import Calling
import ProxyCore
import PushDelivery
import Registration
import SIPGrammar
import Timekeeping

/// One change in the call journal, encoded as bytes. The fields of a journal entry, with big-endian numbers:
///
/// - 4 bytes: the length of all following fields; the first bit is set.
/// - 28 bytes: the authentication code of all following fields (see ``JournalKey``).
/// - 8 bytes: the serial number, in the order in which changes were made.
/// - 8 bytes: the number of the call; 0 for a change to missed calls.
/// - 1 byte: the kind of the change.
/// - All further bytes: the values of the change.
///
/// The first incomplete, damaged or unauthenticated entry ends the reading of a file.
///
/// Entries of old versions have no authentication code: the first bit of the length is not set, and a 4-byte checksum
/// replaces the code.
struct JournalEntry {
    let serial: UInt64
    let call: UInt64
    let kind: Kind
    /// The range of the whole entry in the file's bytes, including its length and authentication code.
    let range: Range<Int>

    enum Kind: UInt8 {
        case begun = 1
        case branch, final, over, missed
    }

    fileprivate static let lengthCount = 4
    fileprivate static let prefix = lengthCount + JournalKey.sealCount
    fileprivate static let sealMark: UInt32 = 1 << 31
    private static let head = 17
    /// The range of the entry's authenticated part in the file's bytes.
    fileprivate let content: Range<Int>

    /// Reads the journal entry that begins at `place`; `nil` if the entry is incomplete or not authenticated with the
    /// given key.
    init?(in bytes: [UInt8], at place: Int, _ key: JournalKey) {
        guard place >= 0, bytes.count - place >= Self.prefix + Self.head else { return nil }
        var reader = JournalReader(bytes, place..<place + Self.lengthCount)
        let mark = reader.number32()
        let length = Int(mark & ~Self.sealMark)
        guard mark & Self.sealMark != 0, length >= Self.head, length <= bytes.count - place - Self.prefix,
            key.isSealed(bytes, place + Self.prefix..<place + Self.prefix + length)
        else { return nil }
        self.init(bytes, from: place, content: place + Self.prefix..<place + Self.prefix + length)
    }

    /// Reads the journal entry that begins at `place`, in the old format without authentication codes.
    init?(unsealedIn bytes: [UInt8], at place: Int) {
        let prefix = Self.lengthCount + 4
        guard place >= 0, bytes.count - place >= prefix + Self.head else { return nil }
        var reader = JournalReader(bytes, place..<place + prefix)
        let (length, checksum) = (Int(reader.number32()), reader.number32())
        guard length >= Self.head, length <= bytes.count - place - prefix else { return nil }
        let content = place + prefix..<place + prefix + length
        guard bytes.journalChecksum(of: content) == checksum else { return nil }
        self.init(bytes, from: place, content: content)
    }

    private init?(_ bytes: [UInt8], from place: Int, content: Range<Int>) {
        var reader = JournalReader(bytes, content)
        serial = reader.number()
        call = reader.number()
        guard let kind = Kind(rawValue: reader.byte()) else { return nil }
        self.kind = kind
        self.content = content
        range = place..<content.upperBound
    }

    /// Appends the entry to `sealed`, in the present format with authentication codes.
    func seal(from bytes: [UInt8], to sealed: inout [UInt8], _ key: JournalKey) {
        let start = sealed.count
        sealed.append(contentsOf: [UInt8](repeating: 0, count: Self.prefix))
        sealed.append(contentsOf: bytes[content])
        sealed.sealJournalEntry(at: start, key)
    }

    /// Decodes the change of a call in the entry; `nil` if the bytes are malformed.
    func change(in bytes: [UInt8]) -> CallChange? {
        var reader = JournalReader(bytes, content.lowerBound + Self.head..<content.upperBound)
        return reader.change(kind, of: call)
    }
}

extension JournalReader {
    /// Reads all values of a change; `nil` if they are malformed.
    mutating func change(_ kind: JournalEntry.Kind, of call: UInt64) -> CallChange? {
        let change: CallChange? =
            switch kind {
            case .begun: self.call(call).map { .begun($0) }
            case .branch: numberedBranch().map { .branch(call: call, number: $0, $1) }
            case .final: .final(call: call, bytes().array)
            case .over: .over(call: call)
            case .missed: missedCall().map { .missed($0) }
            }
        return isBroken || !isAtEnd ? nil : change
    }
}

extension ByteSink {
    /// Appends all values of a change, without its kind and its call.
    mutating func append(_ change: CallChange) {
        switch change {
        case .begun(let call): append(call)
        case .branch(_, let number, let branch):
            append(big: UInt64(clamping: number), count: 2)
            append(branch)
        case .final(_, let response):
            append(big: UInt64(response.count), count: 4)
            append(response.span)
        case .over: break
        case .missed(let change): append(change)
        }
    }
}

extension CallChange {
    var kind: JournalEntry.Kind {
        switch self {
        case .begun: .begun
        case .branch: .branch
        case .final: .final
        case .over: .over
        case .missed: .missed
        }
    }

    /// The number of the entry's call; 0 for a change to missed calls.
    var call: UInt64 {
        switch self {
        case .begun(let call): call.id
        case .branch(let call, _, _), .final(let call, _), .over(let call): call
        case .missed: 0
        }
    }

    /// Encodes the change as a journal entry with its authentication code, and appends the entry to `bytes`.
    func write(_ serial: UInt64, to bytes: inout [UInt8], _ key: JournalKey) {
        let start = bytes.count
        bytes.append(capacity: sizeHint) { out in
            for _ in 0..<JournalEntry.prefix / 8 { out.append(big: 0, count: 8) }
            out.append(big: serial)
            out.append(big: call)
            out.append(kind.rawValue)
            out.append(self)
        }
        bytes.sealJournalEntry(at: start, key)
    }

    /// The estimated size of the encoded entry in bytes; the estimate is rarely too small.
    var sizeHint: Int {
        switch self {
        case .begun(let call): 512 + call.request.count + 128 * call.branches.count
        case .branch: 768
        case .final(_, let response): 64 + response.count
        case .over: 64
        case .missed: 512
        }
    }
}

extension [UInt8] {
    /// Writes the length and the authentication code of the journal entry that begins at `start` and ends with the last
    /// byte.
    mutating func sealJournalEntry(at start: Int, _ key: JournalKey) {
        let content = start + JournalEntry.prefix
        let mark = UInt32(clamping: count - content) | JournalEntry.sealMark
        for place in 0..<4 { self[start + place] = UInt8(truncatingIfNeeded: mark >> UInt32(24 - 8 * place)) }
        key.seal(&self, from: content)
    }

    /// The checksum of a journal entry in the old format without authentication codes: FNV-1a over words of eight
    /// bytes.
    func journalChecksum(of range: Range<Int>) -> UInt32 {
        var sum: UInt64 = 0xcbf2_9ce4_8422_2325 ^ UInt64(range.count)
        func add(_ word: UInt64) {
            sum = (sum ^ word) &* 0x100_0000_01b3
            sum ^= sum >> 29
        }
        let bytes = span.extracting(range)
        let end = bytes.count & ~7
        for place in stride(from: 0, to: end, by: 8) {
            add(unsafe bytes.bytes.unsafeLoadUnaligned(fromByteOffset: place, as: UInt64.self))
        }
        if end < bytes.count {
            var word: UInt64 = 0
            for index in end..<bytes.count { word = word << 8 | UInt64(bytes[index]) }
            add(word)
        }
        return UInt32(truncatingIfNeeded: sum ^ sum >> 32)
    }
}
