package import Addressing
package import Timekeeping

/// Limits how many TLS handshakes one source may begin per second (T17.7). A connection above the limit is closed
/// before any cryptographic computation.
///
/// - The type is `@unchecked Sendable`, because only its loop's thread uses it.
package final class HandshakeLimit: @unchecked Sendable {
    private var rate: SourceRate
    private let isExempt: (Endpoint) -> Bool
    private let refused: (Endpoint) -> Void

    /// Creates a limit for TLS handshakes.
    ///
    /// - Parameters:
    ///   - perSecond: the maximum for a source that has authenticated; 0 for no limit.
    ///   - isExempt: returns whether a peer, such as a trusted peer, has no limit.
    ///   - refused: called for each connection that is closed.
    package init(perSecond: Int, isExempt: @escaping (Endpoint) -> Bool, refused: @escaping (Endpoint) -> Void) {
        rate = SourceRate(perSecond: perSecond)
        self.isExempt = isExempt
        self.refused = refused
    }

    package func changed(perSecond: Int) { rate.changed(perSecond: perSecond) }

    /// Whether a peer may begin a TLS handshake, which is then counted.
    func admits(_ peer: Endpoint, now: Instant) -> Bool {
        guard rate.isOn, !isExempt(peer) else { return true }
        let source = peer.address.source.hashValue
        guard rate.wait(source, isProved: true, now: now) == nil, rate.asked(source, isProved: false, now: now) else {
            refused(peer)
            return false
        }
        return true
    }

    /// Records that a peer has authenticated itself by a password or a certificate.
    package func proved(_ peer: Endpoint, now: Instant) {
        guard rate.isOn, !isExempt(peer) else { return }
        rate.hasProvedItself(peer.address.source.hashValue, now: now)
    }
}
