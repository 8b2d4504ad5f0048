package import Bytes
import Crypto

/// The id of a trace: 16 bytes, written as 32 hexadecimal digits.
///
/// The trace id of a call is the start of the SHA-256 digest of the Call-ID. A call has the same trace id on all nodes
/// and after a restart, and anybody can compute the trace id from the Call-ID.
package struct TraceID: Hashable, Sendable, CustomStringConvertible {
    package let high: UInt64
    package let low: UInt64

    package init(ofCall callID: ByteString) {
        let digest = callID.withSpan { HashAlgorithm.sha256.digest(of: $0) }
        high = UInt64(bigEndian: digest[0..<8])
        // A trace id of zeros is invalid.
        low = max(UInt64(bigEndian: digest[8..<16]), 1)
    }

    package var description: String { high.hex + low.hex }
}

/// The id of a span: 8 bytes, written as 16 hexadecimal digits.
package struct SpanID: Hashable, Sendable, CustomStringConvertible {
    package let rawValue: UInt64

    /// Makes the id from all values that identify the span.
    package init(of parts: ByteString...) {
        var context = HashContext(.sha256)
        for part in parts {
            part.withSpan { context.update($0) }
            // Without a separator, two lists of parts could give the same bytes.
            context.update([0].span)
        }
        rawValue = max(UInt64(bigEndian: context.finish()[0..<8]), 1)
    }

    package var description: String { rawValue.hex }
}

extension UInt64 {
    fileprivate init(bigEndian bytes: ArraySlice<UInt8>) { self = bytes.reduce(0) { $0 << 8 | UInt64($1) } }

    fileprivate var hex: String {
        let digits = String(self, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
