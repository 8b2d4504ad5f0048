package import Bytes
package import SIPGrammar

/// The text of a Contact value as bindings store it: `<URI>;name=value;...`.
///
/// The stored text of a contact has no display name, no `expires`, no malformed `q` and no unneeded white space. All
/// push parameters of the stored text are inside the URI (reading A2). Most clients send their contacts in this form,
/// so a comparison of bytes recognises most refreshes.
package enum ContactText {
    /// The maximum length of a contact in bytes; a longer contact gets 400, because all contacts are in memory.
    static let longest = 8192

    /// Converts a Contact value to the text that bindings store.
    ///
    /// - Returns: `nil` for a URI with characters that angle brackets do not allow, and for a value that is too long.
    package static func canonical(_ contact: NameAddress) -> ByteString? {
        let uri = contact.uri
        guard uri.text.count <= longest, !uri.text.isEmpty else { return nil }
        guard uri.text.withSpan(mayStandInBrackets) else { return nil }

        var out: [UInt8] = []
        out.reserveCapacity(uri.text.count + 96)
        out.append("<")
        let fields = contact.parameters
        var moved: [ParameterPlace] = []
        fields.forEachPlace { bytes, place in
            guard place.isPush(in: bytes) else { return }
            let name = fields.text[place.name]
            if !uri.parameters.contains(where: { $0.name.equalsIgnoringCase(name) }) { moved.append(place) }
        }
        if moved.isEmpty {
            out.append(uri.text)
        } else {
            out.append(uri.withoutHeaders)
            for place in moved { out.append(asURIParameter: place, of: fields) }
            out.append(uri.text, uri.withoutHeaders.count..<uri.text.count)
        }
        out.append(">")
        fields.forEachPlace { bytes, place in
            guard !place.isPush(in: bytes), !bytes.equalsIgnoringCase(place.name, "expires") else { return }
            let value = place.value.map { fields.text[$0] }
            if bytes.equalsIgnoringCase(place.name, "q"), value.flatMap(NameAddress.thousandths) == nil { return }
            out.append(";")
            out.append(fields.text, place.name)
            guard let value else { return }
            out.append("=")
            out.append(unfolding: value)
        }
        return out.count <= longest ? ByteString(copying: out.span) : nil
    }

    private static func mayStandInBrackets(_ uri: Span<UInt8>) -> Bool {
        let forbidden = uri.firstPlace(in: 0..<uri.count) { block in
            block.marks(upTo: " ") .| block.marks(of: "\u{7f}") .| block.marks(of: "<")
                .| block.marks(of: ">") .| block.marks(of: "\"")
        }
        return forbidden == uri.count
    }

    /// The URI of a stored contact, including its push parameters.
    static func uri(of text: ByteString) -> SIPURI? {
        guard text.count > 2, text[0] == UInt8(ascii: "<"), let end = text.firstIndex(of: UInt8(ascii: ">")) else {
            return nil
        }
        return SIPURI(text[1..<end])
    }

    /// Parses the stored text of a contact; `nil` for text in another form.
    static func read(_ text: ByteString) -> NameAddress? { text.hasPrefix("<") ? NameAddress(text) : nil }

    /// The Request-URI for a contact: its URI without push parameters, `method` and URI headers (RFC 3261 section 16.6
    /// item 2, section 19.1.5).
    static func requestURI(of contact: SIPURI) -> ByteString {
        let parameters = contact.parameters
        return ByteString(capacity: contact.text.count) { out in
            out.append(contact.address)
            parameters.forEachPlace { bytes, place in
                guard !place.isPush(in: bytes), !bytes.equalsIgnoringCase(place.name, "method") else { return }
                out.append(place, of: parameters)
            }
        }
    }
}

extension [UInt8] {
    /// Appends a header field value with spaces instead of line ends. SIP allows folds inside quotes, but some clients
    /// reject folds in a response.
    mutating func append(unfolding value: ByteString) {
        guard value.contains(UInt8(ascii: "\n")) || value.contains(UInt8(ascii: "\r")) else {
            append(value)
            return
        }
        for byte in value.array {
            append(byte == UInt8(ascii: "\r") || byte == UInt8(ascii: "\n") ? UInt8(ascii: " ") : byte)
        }
    }

    /// Appends a header field parameter as a URI parameter: without quotes, and with percent-encoding of reserved
    /// characters.
    fileprivate mutating func append(asURIParameter place: ParameterPlace, of parameters: Parameters) {
        append(";")
        append(parameters.text, place.name)
        guard let value = place.value else { return }
        append("=")
        append(escapingParameter: parameters.text[value].unquoted().percentDecoded())
    }

    /// Appends bytes as the value of a URI parameter, with reserved characters percent-encoded.
    mutating func append(escapingParameter value: ByteString) {
        for byte in value.array {
            if byte.isParameterCharacter {
                append(byte)
            } else {
                append(percentEncoded: byte)
            }
        }
    }
}
