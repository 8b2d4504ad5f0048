package import Bytes
package import SIPGrammar

/// What a phone says that it is (RFC 3261 section 20.41). Operators read it, and nothing depends on it: it is in the store alone,
/// since a million contacts would need a hundred megabytes for it.
package enum UserAgent {
    /// How many bytes are kept of it.
    package static let longest = 128

    /// What the request says; empty where it says nothing.
    package static func said(in request: SIPRequest) -> ByteString {
        guard let said = request.frame.firstValue(of: .userAgent) else { return .empty }
        return said.count > longest ? said[0..<longest] : said
    }
}
