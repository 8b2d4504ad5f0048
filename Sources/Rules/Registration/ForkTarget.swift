package import Addressing
package import Bytes
package import PushDelivery
package import SIPGrammar
package import Timekeeping

/// A device of the called user, with the flow for requests to the device.
package struct ForkTarget: Sendable {
    package enum Kind: Hashable, Sendable {
        /// The device gets the INVITE immediately.
        case ordinary
        /// The device gets a push first, and the INVITE after its REGISTER (rules R11, R16).
        case sleeping(PushToken)
    }

    /// The id of the device; all flows of the device have this id.
    package let id: DeviceID
    /// The binding on whose flow the request is sent.
    package let binding: DeviceID
    /// The contact's URI with its push parameters, which are parsed only when the token is needed.
    fileprivate let contact: SIPURI
    /// The push provider of the contact; `nil` if no push can wake the device.
    package let provider: PushProvider?
    package let flow: Flow
    /// The Route values for requests to the device, topmost first (RFC 3327 section 5.5).
    package let path: [ByteString]
    /// The parameter `q` of the contact in thousandths.
    package let q: UInt16
    /// The time at which the device last registered. If a provider reports that the token died before this time, the
    /// report is ignored.
    package let registeredAt: UnixTime
    /// Whether the granted expiry of the contact is not over.
    package let isFresh: Bool
    /// Whether the last request on the flow got no response.
    package let hasFailed: Bool

    /// Whether a push can wake the device.
    package var canBeWoken: Bool { provider != nil }

    /// The push token that wakes the device; `nil` if no push can wake the device.
    package var pushToken: PushToken? { provider.flatMap { PushToken($0, in: contact) } }

    package var kind: Kind { pushToken.map(Kind.sleeping) ?? .ordinary }

    /// The Request-URI for the device: the contact's URI without push parameters, `method` and URI headers.
    package var requestURI: ByteString { ContactText.requestURI(of: contact) }

    /// The port in the contact's URI; 5060 if the URI has no port.
    package var port: UInt16 { contact.port ?? 5060 }

    /// Whether the contact is a `sips:` URI.
    package var isSecure: Bool { contact.scheme == .sips }
}

extension BindingTable {
    /// The devices that a call to the AOR reaches, highest `q` first. Among devices with equal `q`, the latest
    /// registration comes first.
    ///
    /// A device whose contact is no `sip:` or `sips:` URI is omitted, because no request can be sent to it.
    package func forkTargets(for aor: AddressOfRecord, now: Instant) -> [ForkTarget] {
        var targets: [ForkTarget] = []
        var hasFlows = false
        forEachSlot(of: aor) { slot in
            guard isInForce(self[slot], now: now) else { return }
            if self[slot].marks.contains(.isFlow) {
                hasFlows = true
            } else if let target = target(of: binding(at: slot), now: now) {
                targets.append(target)
            }
        }
        if hasFlows {
            for (device, flows) in flowDevices(of: aor, now: now) {
                for flow in flows {
                    guard let target = target(of: binding(at: flow), as: device, now: now) else { continue }
                    targets.append(target)
                    break
                }
            }
        }
        guard targets.count > 1 else { return targets }
        return targets.sorted { ($0.q, $0.registeredAt, $1.id) > ($1.q, $1.registeredAt, $0.id) }
    }

    /// A device as the target of a request, on its best flow; `nil` if the device is gone.
    package func forkTarget(_ id: DeviceID, now: Instant) -> ForkTarget? {
        guard let binding = binding(id) else { return nil }
        if binding.marks.contains(.isFlow) { return flowTargets(of: id, now: now).first }
        return isInForce(binding, now: now) ? target(of: binding, now: now) : nil
    }

    /// A device as the target of a request, on the given binding's flow or, for `nil`, on the device's best flow.
    package func forkTarget(_ id: DeviceID, through flow: DeviceID?, now: Instant) -> ForkTarget? {
        guard let flow else { return forkTarget(id, now: now) }
        guard let binding = binding(flow), isInForce(binding, now: now) else { return nil }
        return target(of: binding, as: id, now: now)
    }

    /// A device as the target of a request, once for each of its flows, best flow first.
    package func flowTargets(of id: DeviceID, now: Instant) -> [ForkTarget] {
        let device = device(of: id)
        return flows(of: id, now: now).compactMap { flow in
            binding(flow).flatMap { target(of: $0, as: device, now: now) }
        }
    }

    /// The push token of a device; `nil` if no push can wake the device.
    package func pushToken(of id: DeviceID) -> PushToken? {
        guard let binding = binding(id), isPush(binding), let uri = ContactText.uri(of: binding.contact) else {
            return nil
        }
        return PushProvider(number: binding.provider).flatMap { PushToken($0, in: uri) }
    }

    /// The device's push provider, if the provider is switched off, so that no push can wake the device; otherwise
    /// `nil`.
    package func switchedOffProvider(of id: DeviceID) -> PushProvider? {
        guard let binding = binding(id), !isPush(binding) else { return nil }
        return PushProvider(number: binding.provider)
    }

    private func target(of binding: Binding, as device: DeviceID? = nil, now: Instant) -> ForkTarget? {
        guard let uri = ContactText.uri(of: binding.contact), uri.scheme == .sip || uri.scheme == .sips else {
            return nil
        }
        return ForkTarget(
            id: device ?? binding.id, binding: binding.id, contact: uri,
            provider: isPush(binding) ? PushProvider(number: binding.provider) : nil, flow: binding.flow,
            path: binding.path, q: binding.q, registeredAt: binding.registeredAt, isFresh: now < binding.freshUntil,
            hasFailed: binding.marks.contains(.hasFailed))
    }
}

extension ForkTarget {
    /// The URI in the topmost Path value; `nil` if the contact has no Path, or if the value cannot be parsed.
    package var pathURI: SIPURI? {
        guard let value = path.first else { return nil }
        // A quoted display name before the brackets is skipped, because it can contain any text.
        var start = 0
        if !value.isEmpty, value[0] == UInt8(ascii: "\"") {
            start = 1
            while start < value.count, value[start] != UInt8(ascii: "\"") {
                start += value[start] == UInt8(ascii: "\\") ? 2 : 1
            }
        }
        guard start < value.count else { return nil }
        let rest = value[start..<value.count]
        guard let open = rest.firstIndex(of: UInt8(ascii: "<")) else { return nil }
        return ContactText.uri(of: rest[open..<rest.count])
    }
}

extension PushToken {
    /// Reads the push token in a contact's URI. The provider is a parameter, because the binding stores the provider.
    init?(_ provider: PushProvider, in contact: SIPURI) {
        let triple = PushParameters.Triple(uri: contact)
        guard let prid = triple.prid else { return nil }
        self.init(provider: provider, param: triple.param ?? .empty, prid: prid)
    }
}
