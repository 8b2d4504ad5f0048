import CNGHTTP2

/// Why a stream or connection was ended (RFC 9113 section 7).
package struct HTTP2ErrorCode: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    package let rawValue: UInt32

    package init(rawValue: UInt32) { self.rawValue = rawValue }

    package static let noError = HTTP2ErrorCode(rawValue: 0)
    package static let refusedStream = HTTP2ErrorCode(rawValue: 7)
    package static let cancel = HTTP2ErrorCode(rawValue: 8)

    /// The code's name in RFC 9113, such as "REFUSED_STREAM".
    package var description: String { unsafe String(cString: nghttp2_http2_strerror(rawValue)) }
}
