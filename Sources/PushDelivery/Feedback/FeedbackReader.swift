import Bytes

/// Reads the stream of Apple's feedback service: records of four bytes of time, two of length, and the token.
///
/// Takes slices of any size; what is left at the end is a record that was cut off.
package struct FeedbackReader: Sendable {
    /// Where the next record begins is not known any more.
    package enum Problem: Hashable, Sendable, CustomStringConvertible {
        case tokenTooLong(Int)

        package var description: String {
            switch self {
            case .tokenTooLong(let length): "a record says that its token has \(length) bytes"
            }
        }
    }

    /// The tokens of today have 32; what is longer is no feedback.
    package static let longestToken = 256

    private static let headLength = 6
    private var record: [UInt8] = []
    /// Once there is one, nothing more is read.
    package private(set) var problem: Problem?

    package init() {}

    /// Bytes of a record that is not whole: at the end of the stream they are to be ignored.
    package var partialBytes: Int { record.count }

    /// Reads on, and gives the records that are whole now: all those before a ``problem``.
    package mutating func read(_ bytes: Span<UInt8>) -> [FeedbackRecord] {
        guard problem == nil else { return [] }
        var records: [FeedbackRecord] = []
        for index in bytes.indices {
            record.append(bytes[index])
            guard record.count >= Self.headLength else { continue }
            let length = Int(record[4]) << 8 | Int(record[5])
            guard length <= Self.longestToken else {
                problem = .tokenTooLong(length)
                record = []
                return records
            }
            guard record.count == Self.headLength + length else { continue }
            records.append(FeedbackRecord(record))
            record.removeAll(keepingCapacity: true)
        }
        return records
    }
}

extension FeedbackRecord {
    /// From the bytes of a whole record.
    fileprivate init(_ bytes: [UInt8]) {
        let second = bytes.prefix(4).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        self.init(second: second, token: ByteString(Hex.encode(bytes.span.extracting(6..<bytes.count))))
    }
}
