import Bytes
import SIPGrammar
import SIPMessage

/// Converts the text to bytes with SIP's line ends, which are CRLF.
func wire(_ text: String) -> [UInt8] {
    var bytes: [UInt8] = []
    for byte in text.utf8 {
        if byte == UInt8(ascii: "\n") { bytes.append(UInt8(ascii: "\r")) }
        bytes.append(byte)
    }
    return bytes
}

func request(_ text: String) throws -> SIPRequest {
    let message = MessageReader().read(wire(text).span, isStream: false)
    guard case .request(let request) = message else { throw Unexpected(message: "\(message)") }
    return request
}

func response(_ text: String) throws -> SIPResponse {
    let message = MessageReader().read(wire(text).span, isStream: false)
    guard case .response(let response) = message else { throw Unexpected(message: "\(message)") }
    return response
}

struct Unexpected: Error { let message: String }

extension [UInt8] {
    /// The bytes as lines that a Swift literal can contain.
    var lines: String { String(decoding: self, as: UTF8.self).replacing("\r\n", with: "\n") }
}
