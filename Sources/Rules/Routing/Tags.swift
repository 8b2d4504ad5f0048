package import SIPGrammar

/// Makes To tags for the daemon's own responses (RFC 3261 section 19.3). Each To tag is unique, even among processes,
/// but need not be hard to guess.
package struct Tags {
    private let key: UInt64
    private var last: UInt64 = 0

    package init(key: UInt64) { self.key = key }

    package mutating func next() -> ToTag {
        last &+= 1
        var mixed = (key &+ last) &* 0x9e37_79b9_7f4a_7c15
        mixed ^= mixed >> 29
        return ToTag(mixed)
    }

    /// A To tag for a response without a transaction, equal for each copy of the request (RFC 3261 section 8.2.7).
    package func stateless(for request: SIPRequest) -> ToTag {
        var hasher = Hasher()
        hasher.combine(key)
        hasher.combine(request.callID)
        hasher.combine(request.from.tag)
        hasher.combine(request.cseq)
        hasher.combine(request.via.branch)
        return ToTag(UInt64(bitPattern: Int64(hasher.finalize())))
    }
}
