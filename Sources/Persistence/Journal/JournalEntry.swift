import Addressing
import Bytes
import ProxyCore
import PushDelivery
import Registration
import SIPGrammar
import Timekeeping

/// One change in the journal of calls, as bytes:
///
///     length of the rest     4 bytes, the highest first, as all numbers
///     checksum of the rest   4
///     serial number          8, in the order in which changes were made
///     number of the call     8; 0 for a row of missed calls
///     kind                   1
///     its values
///
/// A change that is cut or damaged ends what can be read of a file.
struct JournalEntry {
    let serial: UInt64
    let call: UInt64
    let kind: Kind
    /// With length and checksum, in the bytes that it was found in.
    let range: Range<Int>

    enum Kind: UInt8 {
        case begun = 1
        case branch, final, over, missed
    }

    fileprivate static let prefix = 8
    private static let head = prefix + 17

    /// The entry at a place; `nil` when there is no whole one.
    init?(in bytes: [UInt8], at place: Int) {
        guard place >= 0, bytes.count - place >= Self.head else { return nil }
        var reader = JournalReader(bytes, place..<place + Self.head)
        let (length, checksum) = (Int(reader.number32()), reader.number32())
        serial = reader.number()
        call = reader.number()
        guard let kind = Kind(rawValue: reader.byte()), length >= Self.head - Self.prefix,
            length <= bytes.count - place - Self.prefix
        else { return nil }
        self.kind = kind
        range = place..<place + Self.prefix + length
        guard bytes.journalChecksum(of: place + Self.prefix..<range.upperBound) == checksum else { return nil }
    }

    /// The change; `nil` when this program cannot have written it.
    func change(in bytes: [UInt8]) -> CallChange? {
        var reader = JournalReader(bytes, range.lowerBound + Self.head..<range.upperBound)
        let change: CallChange? =
            switch kind {
            case .begun: reader.call(call).map { .begun($0) }
            case .branch: reader.numberedBranch().map { .branch(call: call, number: $0, $1) }
            case .final: .final(call: call, reader.bytes().array)
            case .over: .over(call: call)
            case .missed: reader.missedCall().map { .missed($0) }
            }
        return reader.isBroken ? nil : change
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

    /// 0 for a row of missed calls.
    var call: UInt64 {
        switch self {
        case .begun(let call): call.id
        case .branch(let call, _, _), .final(let call, _), .over(let call): call
        case .missed: 0
        }
    }

    /// Appends the entry to `bytes`.
    func write(_ serial: UInt64, to bytes: inout [UInt8]) {
        let start = bytes.count
        bytes.append(capacity: sizeHint) { out in
            out.append(big: 0, count: 8)
            out.append(big: serial)
            out.append(big: call)
            out.append(kind.rawValue)
            switch self {
            case .begun(let call): out.append(call)
            case .branch(_, let number, let branch):
                out.append(big: UInt64(clamping: number), count: 2)
                out.append(branch)
            case .final(_, let response):
                out.append(big: UInt64(response.count), count: 4)
                out.append(response.span)
            case .over: break
            case .missed(let change): out.append(change)
            }
        }
        let range = start + JournalEntry.prefix..<bytes.count
        let (length, checksum) = (UInt32(clamping: range.count), bytes.journalChecksum(of: range))
        for place in 0..<4 {
            bytes[start + place] = UInt8(truncatingIfNeeded: length >> UInt32(24 - 8 * place))
            bytes[start + 4 + place] = UInt8(truncatingIfNeeded: checksum >> UInt32(24 - 8 * place))
        }
    }

    /// Nearly always enough.
    private var sizeHint: Int {
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
    /// Tells what a power failure or a full disk has left of an entry; it is no protection against anybody. FNV-1a over words
    /// of eight bytes.
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
