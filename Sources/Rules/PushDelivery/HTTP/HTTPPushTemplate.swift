import Bytes
import Settings

/// A text from the settings that contains fields, such as `/push/{{token}}`. The value of a field is encoded for the
/// place where the text is used: URL, header field or body.
package struct HTTPPushTemplate: Hashable, Sendable {
    enum Part: Hashable, Sendable {
        case literal(String)
        case field(HTTPPushField)
    }

    let source: String
    let parts: [Part]

    init(_ source: String) throws(SettingComplaint) {
        self.source = source
        var parts: [Part] = []
        var rest = source[...]
        while let start = rest.firstRange(of: "{{") {
            if start.lowerBound > rest.startIndex { parts.append(.literal(String(rest[..<start.lowerBound]))) }
            rest = rest[start.upperBound...]
            guard let end = rest.firstRange(of: "}}") else {
                throw SettingComplaint("expected }} after each {{")
            }
            let name = String(rest[..<end.lowerBound].filter { $0 != " " })
            guard let field = HTTPPushField(rawValue: name) else {
                throw SettingComplaint("expected one of \(HTTPPushField.names) between {{ and }}")
            }
            parts.append(.field(field))
            rest = rest[end.upperBound...]
        }
        if !rest.isEmpty { parts.append(.literal(String(rest))) }
        self.parts = parts
    }

    var literals: [String] {
        parts.compactMap { part in
            guard case .literal(let text) = part else { return nil }
            return text
        }
    }

    func names(_ field: HTTPPushField) -> Bool { parts.contains(.field(field)) }

    var fields: [HTTPPushField] {
        parts.compactMap { part in
            guard case .field(let field) = part else { return nil }
            return field
        }
    }

    /// The only field of a template that contains nothing else; `nil` for any other template.
    var onlyField: HTTPPushField? {
        guard parts.count == 1, case .field(let field) = parts[0] else { return nil }
        return field
    }

    func render(_ values: HTTPPushValues, _ append: (ByteString, HTTPPushField, inout [UInt8]) -> Void) -> [UInt8] {
        var out: [UInt8] = []
        for part in parts {
            switch part {
            case .literal(let text): out.append(contentsOf: text.utf8)
            case .field(let field): append(values.text(field), field, &out)
            }
        }
        return out
    }
}

/// The URL of requests to the operator's own push server, from the settings. In the URL, scheme, host and port contain
/// no fields, and the values of fields are percent-encoded.
package struct HTTPPushURL: Hashable, Sendable {
    let template: HTTPPushTemplate
    /// The scheme, host and port of the URL, which all pushes of the app have in common.
    let baseURL: String

    init(_ text: String) throws(SettingComplaint) {
        template = try HTTPPushTemplate(text)
        guard case .literal(let start)? = template.parts.first,
            let scheme = ["https://", "http://"].first(where: start.hasPrefix)
        else { throw SettingComplaint("expected https://HOST/PATH, or http:// for a server in the local network") }
        let rest = start.dropFirst(scheme.utf8.count)
        guard let slash = rest.firstIndex(of: "/"), slash > rest.startIndex else {
            throw SettingComplaint("expected a host and a / before the first field")
        }
        let host = rest[..<slash]
        let isHost = host.utf8.allSatisfy { byte in
            switch Unicode.Scalar(byte) {
            case "a"..."z", "A"..."Z", "0"..."9", "-", ".", ":", "[", "]": true
            default: false
            }
        }
        guard isHost else { throw SettingComplaint("expected a host, optionally with a port, after \(scheme)") }
        guard template.literals.allSatisfy({ ByteString($0).isURLText }) else {
            throw SettingComplaint("expected a URL without fragment, with special characters percent-encoded")
        }
        guard !template.fields.contains(where: \.isBodyOnly) else {
            throw SettingComplaint("expected {{calls}} and {{custom}} in the body only")
        }
        baseURL = scheme + host
    }

    /// The URL of the request for one push. If a field makes `.` or `..` a segment of the path, ``render(_:)`` returns
    /// `nil`, because such a segment would lead to another resource even when percent-encoded.
    func render(_ values: HTTPPushValues) -> String? {
        let url = template.render(values) { text, _, out in out.append(percentEncoding: text) }
        let path = url.dropFirst(baseURL.utf8.count).prefix { $0 != UInt8(ascii: "?") }
        for segment in path.split(separator: UInt8(ascii: "/")) where segment.count <= 6 {
            let plain = ByteString(segment).percentDecoded()
            if plain == "." || plain == ".." { return nil }
        }
        return String(decoding: url, as: UTF8.self)
    }
}

/// A header field of requests to the operator's own push server, from the settings. The value of a header field may be
/// a key, so the value is never printed.
package struct HTTPPushHeader: Hashable, Sendable {
    /// The header field's name, in lower case.
    let name: String
    let template: HTTPPushTemplate

    /// The names of header fields that an operator cannot set, because the daemon or its HTTP client sets them.
    private static let reserved: Set<String> = [
        "connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer",
        "transfer-encoding", "upgrade", Self.signatureName,
    ]
    package static let signatureName = "sippushd-signature"

    init(_ text: String) throws(SettingComplaint) {
        guard let colon = text.firstIndex(of: ":") else { throw SettingComplaint("expected \"name: value\"") }
        name = text[..<colon].lowercased()
        let isName = name.utf8.allSatisfy { byte in
            switch Unicode.Scalar(byte) {
            case "a"..."z", "0"..."9", "-", "_", ".", "!", "#", "$", "%", "&", "'", "*", "+", "^", "`", "|", "~": true
            default: false
            }
        }
        guard isName, !name.isEmpty else {
            throw SettingComplaint("expected the name of a header field before the colon")
        }
        guard !Self.reserved.contains(name) else {
            throw SettingComplaint("expected another header field: \(name) is set by the daemon")
        }
        template = try HTTPPushTemplate(String(text[text.index(after: colon)...].drop { $0 == " " }))
        guard template.literals.allSatisfy({ $0.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f } }) else {
            throw SettingComplaint("expected a value without line ends and other control characters")
        }
        guard !template.fields.contains(where: \.isBodyOnly) else {
            throw SettingComplaint("expected {{calls}} and {{custom}} in the body only")
        }
    }

    /// The header field of a template for one push; `nil` if the push token has characters that header fields do not
    /// allow. In values that contain no token, control characters become blanks.
    func render(_ values: HTTPPushValues) -> ProviderRequest.Header? {
        if template.names(.token), !values.text(.token).isVisible { return nil }
        let value = template.render(values) { text, _, out in
            for index in 0..<text.count { out.append(text[index] < 0x20 || text[index] == 0x7f ? 0x20 : text[index]) }
        }
        return ProviderRequest.Header(name, String(decoding: value, as: UTF8.self))
    }
}

extension ByteString {
    /// Whether all bytes are visible ASCII characters, without blanks.
    fileprivate var isVisible: Bool { allSatisfy { (0x21...0x7e).contains($0) } }
}
