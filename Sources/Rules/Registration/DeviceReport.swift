package import Addressing
package import Bytes
package import PushDelivery
import SIPGrammar
package import Timekeeping

/// A device that an app or its server has reported over HTTP, even if the device never sent a REGISTER.
package struct ReportedDevice: Hashable, Sendable {
    private enum Content: Hashable {
        case token(PushToken)
        case told(ReportedTokens)
    }

    private let content: Content
    /// The label of the app's installation, such as Acrobits' selector; empty if the label is unknown. The label of an
    /// app's installation stays the same when its token changes.
    package let label: ByteString

    package init(token: PushToken, label: ByteString) {
        content = .token(token)
        self.label = label
    }

    /// Creates a report about a device from the tokens that an app sent. The app can send fewer tokens than the daemon
    /// already knows.
    package init(_ told: ReportedTokens) {
        content = .told(told)
        label = told.selector
    }

    /// The token to store if the contact `stored` belongs to the reported device; `nil` if a part of the token is
    /// missing.
    func token(over stored: StoredContact?) -> PushToken? {
        switch content {
        case .token(let token):
            // A stored token that the device itself has registered is kept if it contains all reported tokens.
            if let stored, stored.hasRegistered, let known = stored.token, known.covers(token) { return known }
            return token
        case .told(let told): return told.pushToken(over: stored?.token)
        }
    }

    /// Whether the stored token and the reported token belong to the same installation of the app.
    func shares(_ stored: PushToken) -> Bool {
        switch content {
        case .token(let token): token == stored || token.reachesInstallation(of: stored)
        case .told(let told): told.shares(stored)
        }
    }
}

/// A choice of some of a user's devices.
package enum DeviceSelection: Hashable, Sendable {
    case all
    /// The device that was reported with the given label: see ``ReportedDevice/label``.
    case label(ByteString)
    /// The devices, with any provider, whose `pn-prid` is or contains the given token.
    case token(ByteString)
    /// The device that an app's report describes: by the selector or, without a selector, by a token.
    case told(ReportedTokens)
    /// The device with the given id, with or without a push token.
    case device(DeviceID)
}

extension RegisterProcessor {
    /// Decides about the report of a device over HTTP. A device that has registered keeps its contact and its flow. A
    /// device that has not registered has only a token: calls wake the device, and the device gets requests after its
    /// REGISTER.
    ///
    /// - Returns: the changes to bindings; ``RegisterPlan/refreshed`` is empty, because no device has registered.
    package func plan(
        _ device: ReportedDevice, for aor: AddressOfRecord, in table: borrowing BindingTable, now: Moment
    ) -> RegisterDecision {
        let stored = StoredContact.all(of: aor, in: table, settings: settings, now: now.instant)
        let sameLabel = stored.first { $0.isReported(as: device.label) }
        let similar = sameLabel ?? stored.first { $0.token.map(device.shares) == true }
        guard let token = device.token(over: similar) else { return .rejected(.badRequest, []) }
        guard table.enabled.contains(token.provider) else {
            return .rejected(.pushNotSupported, [], because: .providerOff)
        }
        // The report is refused if reading the stored contact again would give another push token.
        switch PushParameters(
            PushParameters.Triple(
                provider: ByteString(token.provider.rawValue), param: token.param, prid: token.prid,
                hasConflictingParams: false), settings: settings)
        {
        case .push: break
        case .unsupported(let problem): return .rejected(.pushNotSupported, [], because: problem)
        case .none, .query, .invalid: return .rejected(.badRequest, [])
        }
        let known = stored.first { $0.token == token } ?? similar
        if let host = settings.push.chosenHost(of: token) {
            // The device and its further flows leave their old server.
            let others = stored.filter { $0.id != known?.id && known?.isFlow(besides: $0) != true }
            let hosts = settings.push.chosenHosts(of: others)
            guard hosts.contains(host) || hosts.count < PushAcceptance.chosenHostLimit else {
                return .rejected(.pushNotSupported, [], because: .webPushHostCount)
            }
        }
        let plan = RegisterPlan(aor: aor)
        let id = known?.id ?? table.nextID.following { id in stored.contains { id.hasSameName(as: $0.id) } }
        let label = device.label
        guard
            let content = known.map({ content(of: token, label, on: $0, now: now) })
                ?? content(of: token, label, aor, now: now)
        else { return .rejected(.badRequest, []) }
        plan.installs = [RegisterPlan.Install(id: id, content: content)]
        plan.persist = [.upsert(StoredBinding(id: id, content, now: now))]
        if let known {
            if known.token != token { plan.facts.append(.tokenReplaced(id)) }
        } else {
            plan.facts.append(.added(id, isPush: true))
        }
        // If a second contact has the same push token or app installation, it belongs to the reported device and is
        // removed. Further flows of the device stay, and get the new token too.
        for other in stored where other.id != id {
            if let known, known.isFlow(besides: other) {
                guard other.token != token, let content = self.content(of: token, label, on: other, now: now) else {
                    continue
                }
                plan.installs.append(RegisterPlan.Install(id: other.id, content: content))
                plan.persist.append(.upsert(StoredBinding(id: other.id, content, now: now)))
                continue
            }
            guard other.token == token || other.isReported(as: label) || other.token.map(device.shares) == true
            else { continue }
            plan.remove(other.id)
            plan.facts.append(.superseded(other.id, by: id))
        }
        guard known != nil || stored.count - plan.removed.count < settings.maxContacts else {
            return .rejected(.forbidden, [])
        }
        return .accepted(plan)
    }

    /// Plans the removal of the selected devices. If no device matches the selection, the returned plan has no changes.
    package func plan(
        removing selection: DeviceSelection, of aor: AddressOfRecord, in table: borrowing BindingTable, now: Moment
    ) -> RegisterPlan {
        let plan = RegisterPlan(aor: aor)
        let stored = StoredContact.all(of: aor, in: table, settings: settings, now: now.instant)
        for contact in stored {
            let isMeant =
                switch selection {
                case .all: contact.isPush
                case .label(let label): contact.isPush && contact.isReported(as: label)
                case .token(let token): contact.isPush && contact.token?.isNamed(token) == true
                case .told(let told): contact.isPush && contact.isMeant(by: told)
                case .device(let id): contact.id == id || stored.contains { $0.id == id && $0.isFlow(besides: contact) }
                }
            guard isMeant else { continue }
            plan.remove(contact.id)
            plan.facts.append(.unregistered(contact.id))
        }
        return plan
    }

    /// The values to store for a new device that is known only by its token.
    private func content(
        of token: PushToken, _ label: ByteString, _ aor: AddressOfRecord, now: Moment
    ) -> Binding.Content? {
        guard let text = ContactText.reported(token, label, aor) else { return nil }
        return Binding.Content(
            aor: aor, contact: text, callID: ByteString("reported"), path: [], flow: .nowhere, cseq: 0, granted: 0,
            freshUntil: now.instant, registeredAt: now.date, q: 1000, provider: token.provider.number, marks: [])
    }

    /// The values to store for a known device whose token was reported.
    private func content(
        of token: PushToken, _ label: ByteString, on known: StoredContact, now: Moment
    ) -> Binding.Content? {
        let binding = known.binding
        var text: ByteString? = binding.contact
        if known.hasRegistered {
            if known.token != token { text = ContactText.replacingPushParameters(in: binding.contact, with: token) }
            let label = label.isEmpty ? known.reportedLabel ?? .empty : label
            text = text.flatMap { ContactText.marked($0, asReported: label) }
        } else {
            text = ContactText.reported(token, label, binding.aor)
        }
        return text.map { text in
            var content = binding.content(with: text)
            content.registeredAt = now.date
            content.provider = token.provider.number
            return content
        }
    }
}

extension Flow {
    /// The flow of a device that has never registered, so that no request can be sent to the device.
    static let nowhere = Flow(transport: .udp, listener: 0, connection: 0, remote: Endpoint(.anyV4, 0))
}

extension ForkTarget {
    /// Whether the device has registered at least once, so that requests can be sent to the device.
    package var isReachable: Bool { flow != .nowhere }
}

extension StoredContact {
    /// Whether the device has registered at least once, and is not known only by an HTTP report.
    var hasRegistered: Bool { binding.flow != .nowhere }

    /// The label from a report about the device over HTTP; `nil` for a device that was never reported. The label from
    /// an HTTP report stays even if the device registers without a label.
    var reportedLabel: ByteString? {
        guard hasRegistered else { return address.decodedParameter("label") ?? .empty }
        // The label of a report is a parameter of the Contact, and not of the URI, because the URI's parameters belong
        // to the phone.
        return address.parameters.first(named: "reported").map { ($0.value ?? .empty).percentDecoded() }
    }

    /// Whether a REGISTER with the given token comes from the reported device of the stored contact; false for a device
    /// that was never reported.
    func wasReported(with token: PushToken?) -> Bool {
        guard reportedLabel != nil, let token, let own = self.token else { return false }
        return own.reachesInstallation(of: token)
    }

    fileprivate func isReported(as label: ByteString) -> Bool {
        guard !label.isEmpty else { return false }
        return reportedLabel == label || address.decodedParameter("label") == label
            || token.flatMap(ReportedTokens.selector(of:)) == label
    }

    fileprivate func isMeant(by told: ReportedTokens) -> Bool {
        if isReported(as: told.selector) { return true }
        guard let token else { return false }
        let own = ReportedTokens.selector(of: token) ?? reportedLabel ?? address.decodedParameter("label")
        if let own, !own.isEmpty, !told.selector.isEmpty { return own == told.selector }
        return told.shares(token)
    }
}

extension ContactText {
    /// The contact to store for a device that is known only by its token; `nil` if the contact would be too long.
    static func reported(_ token: PushToken, _ label: ByteString, _ aor: AddressOfRecord) -> ByteString? {
        var out: [UInt8] = []
        out.append("<sip:")
        out.append(escapingParameter: aor.user)
        out.append("@")
        out.append(aor.host)
        out.append(pushParametersOf: token)
        out.append(">")
        if !label.isEmpty {
            out.append(";label=")
            out.append(escapingParameter: label)
        }
        return out.count <= longest ? ByteString(copying: out.span) : nil
    }

    private static let mark = Array(";reported".utf8)

    /// Removes the label from an HTTP report at the end of a stored contact, and keeps the device's own parameters.
    static func removeMark(from text: inout [UInt8]) {
        if let start = markStart(in: text.span) { text.removeSubrange(start...) }
    }

    /// The index at which the label from an HTTP report begins; `nil` if the stored contact has no label from a report.
    static func markStart(in text: Span<UInt8>) -> Int? {
        guard var start = text.indices.last, text[start] != UInt8(ascii: ">") else { return nil }
        while start > 0, text[start] != UInt8(ascii: ";") { start -= 1 }
        let end = start + mark.count
        guard end <= text.count, text.extracting(start..<end).hasSameBytes(as: mark.span),
            end == text.count || text[end] == UInt8(ascii: "=")
        else { return nil }
        return start
    }

    /// The stored contact with the label from an HTTP report at its end; `nil` if the contact would be too long.
    static func marked(_ text: ByteString, asReported label: ByteString) -> ByteString? {
        guard let uri = uri(of: text) else { return nil }
        let end = uri.text.count + 2
        var out: [UInt8] = []
        out.append(text, 0..<end)
        for parameter in Parameters(text[end..<text.count])
        where !parameter.name.equalsIgnoringCase("reported") { out.append(parameter) }
        out.append(contentsOf: mark)
        if !label.isEmpty {
            out.append("=")
            out.append(escapingParameter: label)
        }
        return out.count <= longest ? ByteString(copying: out.span) : nil
    }

    /// The stored contact with its push token replaced; `nil` if the contact would be too long.
    static func replacingPushParameters(in text: ByteString, with token: PushToken) -> ByteString? {
        guard let uri = uri(of: text) else { return nil }
        let end = uri.text.count + 1
        var out: [UInt8] = []
        out.append("<")
        out.append(uri.address)
        uri.parameters.forEachPlace { bytes, place in
            if !place.isPush(in: bytes) { out.append(place, of: uri.parameters) }
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
