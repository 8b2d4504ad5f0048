import SIPGrammar

/// The tags of our own responses (RFC 3261 section 19.3): unique, and different in each process. They need not be hard to
/// guess.
struct Tags {
    private let key: UInt64
    private var last: UInt64 = 0

    init(key: UInt64) { self.key = key }

    mutating func next() -> ToTag {
        last &+= 1
        var mixed = (key &+ last) &* 0x9e37_79b9_7f4a_7c15
        mixed ^= mixed >> 29
        return ToTag(mixed)
    }

    /// The same for each copy of a request that comes (section 8.2.7), without a memory of it.
    func stateless(for request: SIPRequest) -> ToTag {
        var hasher = Hasher()
        hasher.combine(key)
        hasher.combine(request.callID)
        hasher.combine(request.from.tag)
        hasher.combine(request.cseq)
        hasher.combine(request.via.branch)
        return ToTag(UInt64(bitPattern: Int64(hasher.finalize())))
    }
}
