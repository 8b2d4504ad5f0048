import Bytes

// The functions of `ResponseForwarding` forward a response towards the caller (RFC 3261 section 16.7 items 3 and 9).

extension SIPResponse {
    /// The response without its topmost Via value, and without `pn-*` parameters in Contact.
    ///
    /// A missing Content-Length is added, because the next hop may use a stream transport.
    package func withoutTopVia(dropping dropped: [HeaderName] = [], adding added: [AddedField] = []) -> [UInt8] {
        var size = frame.bytes.count + 32
        for field in added { size += field.name.utf8CodeUnitCount + field.value.count + 4 }
        return [UInt8](capacity: size) { appendWithoutTopVia(dropping: dropped, adding: added, to: &$0) }
    }

    private func appendWithoutTopVia(dropping dropped: [HeaderName], adding added: [AddedField], to out: inout ByteSink)
    {
        var rows = RowRun(frame.bytes)
        rows.append(0..<frame.headersStart, to: &out)
        var isTopVia = true
        var hasLength = false
        for (index, field) in frame.fields.enumerated() where !field.row.isEmpty {
            guard dropped.isEmpty || !dropped.contains(field.name) else { continue }
            switch field.name {
            case .via where isTopVia:
                isTopVia = false
                let next = index + 1
                // Further Via values on the header line of the topmost Via stay. The second and further values of a
                // header line have an empty `row`.
                if next < frame.fields.count, frame.fields[next].name == .via, frame.fields[next].row.isEmpty {
                    rows.append(field.row.lowerBound..<field.value.lowerBound, to: &out)
                    rows.append(frame.fields[next].value.lowerBound..<field.row.upperBound, to: &out)
                }
            case .contact: frame.append(contactRowAt: index, in: &rows, to: &out)
            default:
                if field.name == .contentLength { hasLength = true }
                rows.append(field.row, to: &out)
            }
        }
        rows.end(&out)
        for field in added { out.append(field) }
        if hasLength {
            out.append("\r\n")
        } else {
            out.append(contentLength: frame.bytes.count - frame.bodyStart)
        }
        out.append(frame.bytes, frame.bodyStart..<frame.bytes.count)
    }

    /// A copy of the response with the Vias of the request, because the response has lost some Vias.
    package func withVias(
        of request: MessageFrame, topViaAddition: ViaAddition, adding added: [AddedField] = []
    ) -> [UInt8] {
        [UInt8](capacity: frame.bytes.count + request.bytes.count) { out in
            appendWithVias(of: request, topViaAddition: topViaAddition, adding: added, to: &out)
        }
    }

    private func appendWithVias(
        of request: MessageFrame, topViaAddition: ViaAddition, adding added: [AddedField], to out: inout ByteSink
    ) {
        out.append(frame.bytes, 0..<frame.headersStart)
        var isTopVia = true
        var vias = RowRun(request.bytes)
        for field in request.fields where field.name == .via && !field.row.isEmpty {
            if isTopVia {
                request.append(viaRow: field, addition: topViaAddition, in: &vias, to: &out)
            } else {
                vias.append(field.row, to: &out)
            }
            isTopVia = false
        }
        vias.end(&out)
        var rows = RowRun(frame.bytes)
        for (index, field) in frame.fields.enumerated() where !field.row.isEmpty {
            switch field.name {
            case .via, .contentLength: break
            case .contact: frame.append(contactRowAt: index, in: &rows, to: &out)
            default: rows.append(field.row, to: &out)
            }
        }
        rows.end(&out)
        for field in added { out.append(field) }
        out.append(contentLength: frame.bytes.count - frame.bodyStart)
        out.append(frame.bytes, frame.bodyStart..<frame.bytes.count)
    }
}
