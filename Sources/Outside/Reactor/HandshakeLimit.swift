package import Addressing
package import Timekeeping

/// Limits how many TLS handshakes one source may begin per second (T17.7). A connection above the limit of handshakes
/// is closed before any cryptographic computation.
///
/// - The type is `@unchecked Sendable`, because only its loop's thread uses it.
package final class HandshakeLimit: @unchecked Sendable {
    private var rate: SourceRate
    private let isExempt: (Endpoint) -> Bool
    private let refused: (Endpoint) -> Void

    /// Creates a limit for TLS handshakes.
    ///
    /// - Parameters:
    ///   - perSecond: the limit for a source that authenticates; 0 for no limit.
    ///   - isExempt: returns whether the limit does not apply to a peer; trusted peers should be exempt.
    ///   - refused: the function that is called for each connection that is closed.
    package init(perSecond: Int, isExempt: @escaping (Endpoint) -> Bool, refused: @escaping (Endpoint) -> Void) {
        rate = SourceRate(perSecond: perSecond)
        self.isExempt = isExempt
        self.refused = refused
    }

    package func changed(perSecond: Int) { rate.changed(perSecond: perSecond) }

    /// Whether a connection from the given peer may begin its TLS handshake. Counts a TLS handshake if the handshake is
    /// allowed.
    func admits(_ peer: Endpoint, now: Instant) -> Bool {
        guard rate.isOn, !isExempt(peer) else { return true }
        let source = peer.address.source.hashValue
        guard rate.wait(source, isProved: true, now: now) == nil, rate.asked(source, isProved: false, now: now) else {
            refused(peer)
            return false
        }
        return true
    }

    /// Records that a peer has proved itself by a password or a certificate.
    package func proved(_ peer: Endpoint, now: Instant) {
        guard rate.isOn, !isExempt(peer) else { return }
        rate.hasProvedItself(peer.address.source.hashValue, now: now)
    }
}
