import Bytes
package import SIPGrammar

/// A 128-bit hash that identifies the transaction of a request (RFC 3261 section 17.2.3), made from parts of the
/// request.
///
/// The hash of a transaction key has a random seed, so that no peer can make two keys equal. The parts themselves would
/// need more space and keep the whole message in memory.
package struct TransactionKey: Hashable, Sendable {
    let low, high: UInt64

    /// The 32 bits by which the index finds keys; the table compares all 128 bits of found keys.
    var hash: UInt32 { UInt32(truncatingIfNeeded: low) }

    /// Creates the key of the INVITE that a CANCEL names.
    package init(inviteOf cancel: SIPRequest) { self.init(cancel, as: .invite) }

    /// Creates the key of the transaction that an INVITE begins.
    package init(of invite: SIPRequest) { self.init(invite, as: .invite) }

    /// Creates the key of the request's transaction.
    ///
    /// - Parameters:
    ///   - request: the received request.
    ///   - method: the method of the transaction: INVITE to find the INVITE of an ACK or CANCEL, and the request's own
    ///     method for all else.
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
    /// not hashed, because the ACK has the To tag of the daemon's response, and the CSeq number distinguishes requests.
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
    /// Whether the branch begins with the magic cookie (RFC 3261 section 8.1.1.7) and has further characters.
    fileprivate var isTransactionID: Bool { count > 7 && hasPrefix("z9hG4bK") }
}
