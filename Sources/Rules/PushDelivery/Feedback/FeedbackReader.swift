import Bytes

/// Parses the stream of Apple's feedback service. A record of the stream has four bytes of time, two bytes of length,
/// and the token.
///
/// The ``FeedbackReader`` accepts the stream in pieces of any size. The bytes after the last complete record belong to
/// an incomplete record.
package struct FeedbackReader: Sendable {
    /// An error in the stream of Apple's feedback service. After an error, the beginning of the next record is unknown.
    package enum Problem: Hashable, Sendable, CustomStringConvertible {
        case tokenTooLong(Int)

        package var description: String {
            switch self {
            case .tokenTooLong(let length): "a record says that its token has \(length) bytes"
            }
        }
    }

    /// The maximum length of a token in the stream, in bytes. Today's tokens have 32 bytes. A much longer token shows
    /// that the stream does not come from a feedback service.
    package static let longestToken = 256

    private static let headLength = 6
    private var record: [UInt8] = []
    /// The first error in the stream; after an error, the reader parses no more records.
    package private(set) var problem: Problem?

    package init() {}

    /// The number of received bytes of an incomplete record. The bytes of an incomplete record at the end of the stream
    /// are ignored.
    package var partialBytes: Int { record.count }

    /// Reads the next bytes of the stream, and returns the records that are now complete. After an error, ``problem``
    /// has the error, and no further records are returned.
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
    /// Creates a record from its bytes in the feedback stream.
    fileprivate init(_ bytes: [UInt8]) {
        let second = bytes.prefix(4).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        self.init(second: second, token: ByteString(Hex.encode(bytes.span.extracting(6..<bytes.count))))
    }
}
