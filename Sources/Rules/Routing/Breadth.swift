import Bytes
package import SIPGrammar

/// Limits the number of parallel branches of a forked request (RFC 5393 section 5).
package enum Breadth {
    /// The Max-Breadth of a request without a Max-Breadth field, and the maximum Max-Breadth of any request.
    package static let most: UInt32 = 60

    package static func allowed(to request: SIPRequest, targets: Int) -> UInt32 {
        guard let value = request.frame.firstValue(of: .maxBreadth) else {
            // An INVITE is sent to all contacts of a user, even above the maximum Max-Breadth.
            return max(most, UInt32(clamping: targets))
        }
        return min(value.decimal(as: UInt32.self) ?? most, most)
    }

    /// The Max-Breadth that each target of a request gets; 0 if the request has too many targets.
    package static func share(of request: SIPRequest, among targets: Int) -> UInt32 {
        let allowed = allowed(to: request, targets: targets)
        return targets > 0 ? allowed / UInt32(clamping: targets) : allowed
    }
}
