package import Addressing
package import Timekeeping

/// How many TLS handshakes a second one source may begin (T17.7). A connection beyond that is closed before anything is
/// computed for it.
///
/// - `@unchecked Sendable` because it is used on its loop's thread alone.
package final class HandshakeLimit: @unchecked Sendable {
    private var rate: SourceRate
    private let isExempt: (Endpoint) -> Bool
    private let refused: (Endpoint) -> Void

    /// - Parameters:
    ///   - perSecond: how many a source may begin that prove themselves; 0 for any number.
    ///   - isExempt: whose are not counted: those of trusted peers.
    ///   - refused: told of each that is closed.
    package init(perSecond: Int, isExempt: @escaping (Endpoint) -> Bool, refused: @escaping (Endpoint) -> Void) {
        rate = SourceRate(perSecond: perSecond)
        self.isExempt = isExempt
        self.refused = refused
    }

    package func changed(perSecond: Int) { rate.changed(perSecond: perSecond) }

    /// Whether a connection from there may begin its handshake. If it may, that counts.
    func admits(_ peer: Endpoint, now: Instant) -> Bool {
        guard rate.isOn, !isExempt(peer) else { return true }
        let source = peer.address.source.hashValue
        guard rate.wait(source, isProved: true, now: now) == nil, rate.asked(source, isProved: false, now: now) else {
            refused(peer)
            return false
        }
        return true
    }

    /// Somebody has shown a password, or a certificate, on a connection from there.
    package func proved(_ peer: Endpoint, now: Instant) {
        guard rate.isOn, !isExempt(peer) else { return }
        rate.hasProvedItself(peer.address.source.hashValue, now: now)
    }
}
