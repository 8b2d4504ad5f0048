package import Bytes
package import SIPGrammar

/// A phone's User-Agent (RFC 3261 section 20.41). Operators read it, and no rule depends on it. Only the store keeps
/// it, because a million contacts would need a hundred megabytes for it.
package enum UserAgent {
    /// The maximum number of bytes that are stored.
    package static let longest = 128

    /// The User-Agent of the request; empty if it has none.
    package static func said(in request: SIPRequest) -> ByteString {
        guard let said = request.frame.firstValue(of: .userAgent) else { return .empty }
        return said.count > longest ? said[0..<longest] : said
    }
}
