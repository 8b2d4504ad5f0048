import Bytes
import SIPGrammar

/// The parts of a request that identify its transaction (RFC 3261 section 17.2.3), as 128 bits.
///
/// The parts are hashed with the process's random seed, so that no outsider can make two keys equal. Storing the parts
/// themselves would need more space and keep the whole message in memory.
package struct TransactionKey: Hashable, Sendable {
    let low, high: UInt64

    /// The 32 bits that select the bucket in the index. The index then compares the whole key of 128 bits.
    var hash: UInt32 { UInt32(truncatingIfNeeded: low) }

    /// Creates the key.
    ///
    /// - Parameters:
    ///   - request: the received request.
    ///   - method: the method to match: the method of the request, or INVITE for an ACK or a CANCEL.
    init(_ request: SIPRequest, as method: Method) {
        var hasher = Hasher()
        hasher.combine(method)
        let via = request.via
        via.host.lowercased().hash(into: &hasher)
        hasher.combine(via.port ?? 0)
        if let branch = via.branch, branch.isTransactionID {
            branch.hash(into: &hasher)
        } else {
            Self.combineElements(of: request, into: &hasher)
        }
        var second = hasher
        second.combine(1)
        low = UInt64(bitPattern: Int64(hasher.finalize()))
        high = UInt64(bitPattern: Int64(second.finalize()))
    }

    /// Hashes the parts that identify a transaction by RFC 2543, for a branch without the magic cookie. The To tag is
    /// left out, because the ACK has the tag of our response, and the CSeq number already distinguishes requests of one
    /// dialog.
    private static func combineElements(of request: SIPRequest, into hasher: inout Hasher) {
        let parts = [request.uri.text, request.callID, request.from.tag ?? .empty, request.via.branch ?? .empty]
        for part in parts {
            hasher.combine(part.count)
            part.hash(into: &hasher)
        }
        hasher.combine(request.cseq.number)
    }
}

extension ByteString {
    /// Whether the branch starts with the magic cookie and has further characters.
    fileprivate var isTransactionID: Bool { count > 7 && hasPrefix("z9hG4bK") }
}
