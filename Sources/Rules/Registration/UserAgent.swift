package import Bytes
package import SIPGrammar

/// A phone's User-Agent (RFC 3261 section 20.41), which only operators read. Only the store keeps it, because the
/// values of a million contacts would need a hundred megabytes of memory.
package enum UserAgent {
    /// The maximum number of bytes of a User-Agent that the store keeps.
    package static let longest = 128

    /// The User-Agent of the request; empty if the request has none.
    package static func said(in request: SIPRequest) -> ByteString {
        guard let said = request.frame.firstValue(of: .userAgent) else { return .empty }
        return said.count > longest ? said[0..<longest] : said
    }
}
