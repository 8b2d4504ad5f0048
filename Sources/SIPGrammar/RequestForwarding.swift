/// Requests and responses on their way through the proxy: copied row by row, changed only where the RFC says so.
extension SIPRequest {
    /// The request as it goes to the next hop (RFC 3261 section 16.6, items 1 to 6, 8 and 9).
    package func forwarded(_ edits: RequestEdits) -> OutgoingRequest {
        var out: [UInt8] = []
        out.reserveCapacity(frame.bytes.count + 512 + edits.recordRoutes.reduce(0) { $0 + $1.count })
        method.append(to: &out)
        out.append(" ")
        let uriStart = out.count
        out.append(edits.requestURI)
        let requestURI = uriStart..<out.count
        out.append(" SIP/2.0\r\n")

        let viaStart = out.count
        out.append("Via: ")
        out.append(edits.via)
        out.append("\r\n")
        let viaRow = viaStart..<out.count
        frame.appendVias(topAddition: edits.topViaAddition, to: &out)
        for value in edits.recordRoutes {
            out.append("Record-Route: ")
            out.append(value)
            out.append("\r\n")
        }
        var routeRows: [Range<Int>] = []
        for value in edits.routes ?? [] {
            let start = out.count
            out.append("Route: ")
            out.append(value)
            out.append("\r\n")
            routeRows.append(start..<out.count)
        }
        out.append("Max-Forwards: ")
        out.append(decimal: edits.maxForwards)
        out.append("\r\n")

        var from = 0..<0
        var to = 0..<0
        var callID = 0..<0
        for field in frame.fields {
            let start = out.count
            switch field.name {
            case .via, .maxForwards, .contentLength: continue
            case .route where edits.routes != nil: continue
            case .contact: frame.appendContact(field, to: &out)
            case let name where edits.removed.contains(name): continue
            default: out.append(frame.bytes[field.row])
            }
            switch field.name {
            case .from: from = start..<out.count
            case .to: to = start..<out.count
            case .callID: callID = start..<out.count
            case .route where start < out.count: routeRows.append(start..<out.count)
            default: break
            }
        }
        for field in edits.added {
            out.append(field.name)
            out.append(": ")
            out.append(field.value)
            out.append("\r\n")
        }
        out.append("Content-Length: ")
        out.append(decimal: frame.bytes.count - frame.bodyStart)
        out.append("\r\n\r\n")
        out.append(frame.body)
        return OutgoingRequest(
            bytes: out, method: method, cseqNumber: cseq.number, requestURI: requestURI, viaRow: viaRow, fromRow: from,
            toRow: to, callIDRow: callID, routeRows: routeRows)
    }
}

extension SIPResponse {
    /// The response as it goes upstream (RFC 3261 section 16.7 item 3): our Via gone, all else as received, except that
    /// `pn-*` parameters in Contact stay here (RFC 8599 section 13).
    package func withoutTopVia() -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(frame.bytes.count)
        out.append(frame.bytes[0..<frame.headersStart])
        var isTop = true
        for field in frame.fields {
            switch field.name {
            case .via:
                // Written value by value: our Via may share its row with the next one.
                if !isTop {
                    out.append("Via: ")
                    out.append(frame.bytes[field.value])
                    out.append("\r\n")
                }
                isTop = false
            case .contact: frame.appendContact(field, to: &out)
            case .contentLength: break
            default: out.append(frame.bytes[field.row])
            }
        }
        // Written anew: a datagram may come without it, and a stream needs it.
        out.append("Content-Length: ")
        out.append(decimal: frame.bytes.count - frame.bodyStart)
        out.append("\r\n\r\n")
        out.append(frame.body)
        return out
    }
}

extension MessageFrame {
    /// A Contact value, on a row of its own when it has to be changed.
    func appendContact(_ field: HeaderField, to out: inout [UInt8]) {
        let value = bytes[field.value]
        // One row may hold several values; they are written singly, so that each can be changed alone.
        out.append("Contact: ")
        out.append(PushParameterRemoval.stripped(value))
        out.append("\r\n")
    }
}

/// Cuts `pn-*` parameters out of URIs that leave towards peers: whoever has a token can wake the phone.
package enum PushParameterRemoval {
    /// The text less each parameter whose name begins with `pn-`, other than `pn-purr`, which is made for peers
    /// (RFC 8599 section 6). Works on a URI, and on a name-addr with header parameters.
    package static func stripped(_ text: ByteString) -> ByteString {
        guard hasPushParameter(text) else { return text }
        var out: [UInt8] = []
        out.reserveCapacity(text.count)
        var index = 0
        var isQuoted = false
        while index < text.count {
            let byte = text[index]
            if byte == UInt8(ascii: "\\"), isQuoted, index + 1 < text.count {
                out.append(byte)
                out.append(text[index + 1])
                index += 2
                continue
            }
            if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
            if byte == UInt8(ascii: ";"), !isQuoted, isPushParameter(text, at: index + 1) {
                index = end(of: text, parameterAt: index + 1)
                continue
            }
            out.append(byte)
            index += 1
        }
        return ByteString(out)
    }

    private static func hasPushParameter(_ text: ByteString) -> Bool {
        text.withSpan { span in
            guard span.count > 3 else { return false }
            for index in 0..<span.count - 3
            where span[index].asciiLowercased == UInt8(ascii: "p") && span[index + 1].asciiLowercased == UInt8(ascii: "n")
                && span[index + 2] == UInt8(ascii: "-")
            {
                return true
            }
            return false
        }
    }

    private static func isPushParameter(_ text: ByteString, at start: Int) -> Bool {
        var begin = start
        while begin < text.count, text[begin] == UInt8(ascii: " ") || text[begin] == UInt8(ascii: "\t") { begin += 1 }
        guard begin + 3 <= text.count, text[begin..<begin + 3].equalsIgnoringCase("pn-") else { return false }
        let name = text[begin..<nameEnd(of: text, from: begin)]
        return !name.equalsIgnoringCase("pn-purr")
    }

    private static func nameEnd(of text: ByteString, from start: Int) -> Int {
        var end = start
        while end < text.count, isNameByte(text[end]) { end += 1 }
        return end
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        byte != UInt8(ascii: "=") && byte != UInt8(ascii: ";") && byte != UInt8(ascii: ">") && byte != UInt8(ascii: "?")
            && byte != UInt8(ascii: " ") && byte != UInt8(ascii: ",")
    }

    /// Where the parameter ends: at the next `;`, `>`, `?` or `,` outside quotes.
    private static func end(of text: ByteString, parameterAt start: Int) -> Int {
        var index = start
        var isQuoted = false
        while index < text.count {
            let byte = text[index]
            if byte == UInt8(ascii: "\\"), isQuoted {
                index += 2
                continue
            }
            if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
            if !isQuoted,
                byte == UInt8(ascii: ";") || byte == UInt8(ascii: ">") || byte == UInt8(ascii: "?")
                    || byte == UInt8(ascii: ",")
            {
                return index
            }
            index += 1
        }
        return text.count
    }
}
