import Addressing
package import PushDelivery
package import SIPGrammar
package import Timekeeping

/// A device that an app or its server tells of over HTTP, without a REGISTER.
package struct ReportedDevice: Hashable, Sendable {
    package let token: PushToken
    /// What names the installation across tokens, such as Acrobits' selector; empty when nothing does.
    package let label: ByteString

    package init(token: PushToken, label: ByteString) {
        self.token = token
        self.label = label
    }
}

/// Which of a user's devices are meant.
package enum DeviceSelection: Hashable, Sendable {
    case all
    /// That it was reported with; see ``ReportedDevice/label``.
    case label(ByteString)
    /// `pn-prid`, of whatever provider.
    case token(ByteString)
}

extension RegisterProcessor {
    /// Judges a report. A device that has registered keeps its contact and its flow; one that has not is known by its token
    /// alone: calls wake it, and nothing else can be sent to it until it registers.
    ///
    /// - Returns: a plan like that of a REGISTER, but nobody registered: ``RegisterPlan/refreshed`` is empty.
    package func plan(
        _ device: ReportedDevice, for aor: AddressOfRecord, in table: borrowing BindingTable, now: Moment
    ) -> RegisterDecision {
        guard table.enabled.contains(device.token.provider) else { return .rejected(.pushNotSupported, []) }
        let stored = StoredContact.all(of: aor, in: table, settings: settings, now: now.instant)
        let known =
            stored.first { $0.token == device.token }
            ?? stored.first { !device.label.isEmpty && $0.label?.isReported(as: device.label) == true }
        var plan = RegisterPlan(aor: aor)
        let id = known?.id ?? table.nextID
        guard let content = known.map({ content(of: device, on: $0, now: now) }) ?? content(of: device, aor, now: now)
        else { return .rejected(.badRequest, []) }
        plan.installs = [RegisterPlan.Install(id: id, content: content)]
        plan.persist = [.upsert(StoredBinding(id: id, content, now: now))]
        if let known {
            if known.token != device.token { plan.facts.append(.tokenReplaced(id)) }
        } else {
            plan.facts.append(.added(id, isPush: true))
        }
        // The same token, or the same installation, besides.
        for other in stored where other.id != id {
            let isSameLabel = !device.label.isEmpty && other.label?.isReported(as: device.label) == true
            guard other.token == device.token || isSameLabel else { continue }
            plan.remove(other.id)
            plan.facts.append(.superseded(other.id, by: id))
        }
        guard known != nil || stored.count - plan.removed.count < settings.maxContacts else {
            return .rejected(.forbidden, [])
        }
        return .accepted(plan)
    }

    /// The removal of devices; nothing to remove is a plan without changes.
    package func plan(
        removing selection: DeviceSelection, of aor: AddressOfRecord, in table: borrowing BindingTable, now: Moment
    ) -> RegisterPlan {
        var plan = RegisterPlan(aor: aor)
        for contact in StoredContact.all(of: aor, in: table, settings: settings, now: now.instant)
        where contact.isPush {
            let isMeant =
                switch selection {
                case .all: true
                case .label(let label): contact.label?.isReported(as: label) == true
                case .token(let token): contact.token?.prid == token
                }
            guard isMeant else { continue }
            plan.remove(contact.id)
            plan.facts.append(.unregistered(contact.id))
        }
        return plan
    }

    /// A new device that nothing but its token is known of.
    private func content(
        of device: ReportedDevice, _ aor: AddressOfRecord, now: Moment
    ) -> Binding.Content? {
        guard let text = ContactText.reported(device, aor) else { return nil }
        return Binding.Content(
            aor: aor, contact: text, callID: ByteString("reported"), path: [], flow: .nowhere, cseq: 0, granted: 0,
            freshUntil: now.instant, registeredAt: now.date, q: 1000, provider: device.token.provider.number, marks: [])
    }

    /// A device that is there: its token was named again, or has changed.
    private func content(of device: ReportedDevice, on known: StoredContact, now: Moment) -> Binding.Content? {
        let binding = known.binding
        var text: ByteString? = binding.contact
        if binding.flow == .nowhere {
            text = ContactText.reported(device, binding.aor)
        } else if known.token != device.token {
            text = ContactText.replacingPushParameters(in: binding.contact, with: device.token)
        }
        return text.map { text in
            Binding.Content(
                aor: binding.aor, contact: text, callID: binding.callID, path: binding.path, flow: binding.flow,
                cseq: binding.cseq, granted: binding.granted, freshUntil: binding.freshUntil, registeredAt: now.date,
                q: binding.q, provider: device.token.provider.number, marks: binding.marks)
        }
    }
}

extension Flow {
    /// Of a device that has never registered.
    static let nowhere = Flow(transport: .udp, listener: 0, connection: 0, remote: Endpoint(.anyV4, 0))
}

extension ForkTarget {
    /// Requests can be sent to it: it has registered at least once.
    package var isReachable: Bool { flow != .nowhere }
}

extension DeviceLabel {
    fileprivate func isReported(as label: ByteString) -> Bool { source == .label && value == label }
}

extension ContactText {
    /// The stored value of a device that is known by a report alone; `nil` when it would be too long.
    static func reported(_ device: ReportedDevice, _ aor: AddressOfRecord) -> ByteString? {
        var out: [UInt8] = []
        out.append("<sip:")
        out.append(escapingParameter: aor.user)
        out.append("@")
        out.append(aor.host)
        out.append(pushParametersOf: device.token)
        out.append(">")
        if !device.label.isEmpty {
            out.append(";label=")
            out.append(escapingParameter: device.label)
        }
        return out.count <= longest ? ByteString(copying: out.span) : nil
    }

    /// The same stored value for another token; `nil` when it would be too long.
    static func replacingPushParameters(in text: ByteString, with token: PushToken) -> ByteString? {
        guard let uri = uri(of: text) else { return nil }
        let end = uri.text.count + 1
        var out: [UInt8] = []
        out.append("<")
        out.append(uri.text, 0..<URIText.addressEnd(of: uri.text))
        for parameter in uri.parameters where !parameter.isPush {
            out.append(";")
            out.append(parameter.name)
            guard let value = parameter.value else { continue }
            out.append("=")
            out.append(value)
        }
        out.append(pushParametersOf: token)
        if let headers = uri.headers {
            out.append("?")
            out.append(headers)
        }
        out.append(text[end..<text.count])
        return out.count <= longest ? ByteString(copying: out.span) : nil
    }
}

extension [UInt8] {
    fileprivate mutating func append(pushParametersOf token: PushToken) {
        append(";pn-provider=")
        append(contentsOf: token.provider.rawValue.utf8)
        if !token.param.isEmpty {
            append(";pn-param=")
            append(escapingParameter: token.param)
        }
        append(";pn-prid=")
        append(escapingParameter: token.prid)
    }
}
