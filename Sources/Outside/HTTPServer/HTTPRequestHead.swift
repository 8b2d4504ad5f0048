import Bytes
package import HTTPSemantics

/// Why a request is refused, with the status of the answer; the connection is then closed.
package struct HTTPFault: Error, Hashable, Sendable {
    package let status: Int
    /// A sentence for the author of the client.
    let reason: String

    init(_ status: Int, _ reason: String) {
        self.status = status
        self.reason = reason
    }
}

/// The request line and header fields of a request, read strictly (RFC 9112 sections 3 and 5).
///
/// A head that two servers could read differently is refused, because an attacker could smuggle a request past a proxy
/// (T14).
package struct HTTPRequestHead {
    enum Body: Hashable {
        case length(Int)
        case chunked
    }

    package let method: String
    package let target: String
    package private(set) var fields: [HTTPField] = []
    let body: Body
    /// Whether the client waits for permission to send the body (RFC 9110 section 10.1.1).
    let expectsContinue: Bool
    /// Whether the client may send a further request on the connection.
    package let staysOpen: Bool
    /// Whether the client supports the chunked transfer coding (RFC 9112 section 7.1). If the client does not support
    /// chunks, a body in pieces ends with the connection.
    let takesChunks: Bool

    private static let methods: Set<String> = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "QUERY",
    ]
    private static let fieldLimit = 100

    /// Reads the lines of a head, which have no CRLF and do not include the empty line at the end.
    init(lines: [ArraySlice<UInt8>]) throws(HTTPFault) {
        let words = (lines.first ?? []).split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard words.count == 3, !words[0].isEmpty, words[0].allSatisfy(\.isTokenCharacter) else {
            throw HTTPFault(400, "the first line is not a request line")
        }
        let isOld = try Self.isOldVersion(words[2])
        method = String(decoding: words[0], as: UTF8.self)
        target = String(decoding: words[1], as: UTF8.self)
        guard Self.methods.contains(method) else { throw HTTPFault(501, "this method is not known") }
        guard words[1].allSatisfy({ (0x21...0x7e).contains($0) }), Self.isTarget(target, of: method) else {
            throw HTTPFault(400, "the request target is malformed")
        }
        guard lines.count <= Self.fieldLimit + 1 else { throw HTTPFault(431, "too many header fields") }
        for line in lines.dropFirst() { fields.append(try Self.field(line)) }
        let framing = Framing(fields)
        guard framing.hosts <= 1, framing.hosts == 1 || isOld else { throw HTTPFault(400, "expected one Host field") }
        takesChunks = !isOld
        body = try framing.body(isOld: isOld)
        staysOpen = try framing.staysOpen(isOld: isOld)
        expectsContinue = try framing.expectsContinue() && !isOld
    }

    private static func isOldVersion(_ word: ArraySlice<UInt8>) throws(HTTPFault) -> Bool {
        let text = Array(word)
        if text == Array("HTTP/1.1".utf8) { return false }
        if text == Array("HTTP/1.0".utf8) { return true }
        guard text.count == 8, text.starts(with: Array("HTTP/".utf8)), text[5].isASCIIDigit,
            text[6] == UInt8(ascii: "."),
            text[7].isASCIIDigit
        else { throw HTTPFault(400, "the version is malformed") }
        throw HTTPFault(505, "expected HTTP/1.1")
    }

    /// Whether the request target is in a form of RFC 9112 section 3.2: origin form, absolute form with an authority,
    /// or `*` for OPTIONS.
    private static func isTarget(_ target: String, of method: String) -> Bool {
        if target.hasPrefix("/") { return true }
        if target == "*" { return method == "OPTIONS" }
        for scheme in ["http://", "https://"] where target.lowercased().hasPrefix(scheme) {
            let rest = target.dropFirst(scheme.count)
            let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
            return !authority.isEmpty && authority.contains("[") == authority.contains("]")
        }
        return false
    }

    private static func field(_ line: ArraySlice<UInt8>) throws(HTTPFault) -> HTTPField {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex,
            line[..<colon].allSatisfy(\.isTokenCharacter)
        else {
            // The field has a space before the colon, continues the previous line, or has an invalid name.
            throw HTTPFault(400, "a header field is malformed")
        }
        let value = line[line.index(after: colon)...].withoutSpacesAround
        guard value.allSatisfy({ $0 == 9 || ($0 >= 0x20 && $0 != 0x7f) }) else {
            throw HTTPFault(400, "a header field holds a control character")
        }
        return HTTPField(String(decoding: line[..<colon], as: UTF8.self), String(decoding: value, as: UTF8.self))
    }
}

/// The header fields that determine where the request ends and whether the connection stays open.
private struct Framing {
    private(set) var hosts = 0
    private var lengths: [String] = []
    private var encodings: [String] = []
    private var expectations: [String] = []
    private var connection: Set<String> = []

    init(_ fields: [HTTPField]) {
        for field in fields {
            switch field.name.lowercased() {
            case "host": hosts += 1
            case "content-length": lengths.append(field.value)
            case "transfer-encoding": encodings.append(field.value.lowercased())
            case "expect": expectations.append(field.value.lowercased())
            case "connection":
                for word in field.value.lowercased().split(separator: ",") {
                    connection.insert(word.filter { $0 != " " && $0 != "\t" })
                }
            default: break
            }
        }
    }

    /// The length of the body (RFC 9112 section 6.3). Where RFC 9112 allows leniency, this server refuses the request.
    func body(isOld: Bool) throws(HTTPFault) -> HTTPRequestHead.Body {
        if !encodings.isEmpty {
            guard lengths.isEmpty else { throw HTTPFault(400, "both Content-Length and Transfer-Encoding") }
            guard !isOld else { throw HTTPFault(400, "HTTP/1.0 has no Transfer-Encoding") }
            guard encodings.count == 1 else { throw HTTPFault(400, "more than one Transfer-Encoding") }
            guard encodings == ["chunked"] else { throw HTTPFault(501, "expected Transfer-Encoding: chunked") }
            return .chunked
        }
        guard lengths.count <= 1 else { throw HTTPFault(400, "more than one Content-Length") }
        guard let text = lengths.first else { return .length(0) }
        guard !text.isEmpty, text.utf8.allSatisfy(\.isASCIIDigit) else {
            throw HTTPFault(400, "Content-Length is not a number")
        }
        // A length that is too large for an `Int` exceeds the limit in any case.
        guard let length = Int(text) else { throw HTTPFault(413, "the body is too long") }
        return .length(length)
    }

    func staysOpen(isOld: Bool) throws(HTTPFault) -> Bool {
        if connection.contains("close") { return false }
        return !isOld || connection.contains("keep-alive")
    }

    func expectsContinue() throws(HTTPFault) -> Bool {
        guard !expectations.isEmpty else { return false }
        guard expectations == ["100-continue"] else { throw HTTPFault(417, "only 100-continue can be expected") }
        return true
    }
}

extension UInt8 {
    /// Whether the byte is a `tchar` of RFC 9110 section 5.6.2.
    package var isTokenCharacter: Bool {
        switch self {
        case UInt8(ascii: "!"), UInt8(ascii: "#"), UInt8(ascii: "$"), UInt8(ascii: "%"), UInt8(ascii: "&"),
            UInt8(ascii: "'"), UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "."), UInt8(ascii: "^"),
            UInt8(ascii: "`"), UInt8(ascii: "|"), UInt8(ascii: "~"):
            true
        default: isNameByte
        }
    }
}

extension ArraySlice<UInt8> {
    fileprivate var withoutSpacesAround: ArraySlice<UInt8> {
        var rest = self
        while let first = rest.first, first == 32 || first == 9 { rest = rest.dropFirst() }
        while let last = rest.last, last == 32 || last == 9 { rest = rest.dropLast() }
        return rest
    }
}
