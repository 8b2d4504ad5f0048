package import Bytes
package import SIPGrammar

/// The User-Agent of a phone (RFC 3261 section 20.41), which only operators read. Only the store keeps the User-Agent,
/// because the User-Agents of a million contacts would need a hundred megabytes.
package enum UserAgent {
    /// The maximum length in bytes of a User-Agent in the store.
    package static let longest = 128

    /// The User-Agent of a request, cut to ``longest`` bytes; empty if the request has none.
    package static func said(in request: SIPRequest) -> ByteString {
        guard let said = request.frame.firstValue(of: .userAgent) else { return .empty }
        return said.count > longest ? said[0..<longest] : said
    }
}
