import Addressing
package import Bytes
import LocationService
import PushDelivery
import PushPlanning
package import Registration
import Telemetry
import Timekeeping

/// The result of one step of the search for dead tokens.
package struct DeadTokenFindings: Hashable, Sendable {
    /// The number of contacts that were removed in this step.
    package var dropped = 0
    /// The number of contacts that were not removed, because they registered after their push token died.
    package var newer = 0
    /// The dead push tokens that were found in contacts.
    package var matched: [ByteString] = []
    /// Where the next step of the search begins; `nil` if all bindings have been searched.
    package var next: BindingCursor?

    package init() {}
}

/// Removes contacts whose push tokens are dead, as a provider's answer or Apple's feedback service reports.
extension ProxyEngine {
    /// Removes the contact of a device whose push token is dead, and ends the branches that wait for this device. The
    /// unread missed calls of the device are passed on to the user's other devices.
    func dropDevice(
        _ device: DeviceID, of aor: AddressOfRecord, _ token: PushToken?, since: UnixTime?,
        source: DeadToken.Source, now: Moment
    ) {
        output.counters.count(.tokenDropped)
        log.notice(
            "a contact was removed, because its push token is dead",
            [.aor: .described(aor), .device: .described(device)])
        var changes = removeFlows(of: device, with: token, now: now)
        if let change = registrar.bindings.remove(device) { changes.append(.binding(change)) }
        if !changes.isEmpty {
            if let token {
                changes.append(
                    .deadToken(
                        DeadToken(
                            token: token, since: since ?? now.date, recordedAt: now.date, source: source,
                            domain: aor.host)))
            }
            act(.record(changes))
        }
        if ledger.buckets.unread(device, of: aor) > 0 {
            let heirs = registrar.bindings.forkTargets(for: aor, now: now.instant)
                .filter { $0.canBeWoken && $0.id != device }.map(\.id)
            ledger.passOn(from: device, to: heirs, of: aor, into: &output.actions)
        }
        deviceRemoved(device, of: aor, because: .tokenDead, now: now)
    }

    /// Removes the bindings of a device's other flows that have the same dead token.
    private func removeFlows(of device: DeviceID, with token: PushToken?, now: Moment) -> [EngineChange] {
        registrar.bindings.flows(of: device, now: now.instant).compactMap { flow in
            guard flow != device, registrar.bindings.pushToken(of: flow) == token else { return nil }
            return registrar.bindings.remove(flow).map { .binding($0) }
        }
    }

    /// Removes contacts whose push tokens Apple's feedback service reports as dead, in one step of a search through all
    /// bindings. The engine serves calls between the steps of the search. Push tokens have no index, because only this
    /// search would use one.
    ///
    /// - Parameters:
    ///   - dead: the dead tokens in lower-case hexadecimal, each with the Unix time in seconds of its death.
    ///   - cursor: where this step begins.
    ///   - limit: the number of contacts to read in this step.
    ///   - now: both clocks.
    /// - Returns: the findings, and where the next step begins.
    func dropDeadTokens(
        _ dead: [ByteString: UInt32], from cursor: BindingCursor, limit: Int, now: Moment
    ) -> DeadTokenFindings {
        var findings = DeadTokenFindings()
        var found: [(device: BindingTable.PushDevice, second: UInt32)] = []
        var cursor = cursor
        let hasMore = registrar.bindings.forEachAppleDevice(from: &cursor, limit: limit) { device in
            for token in device.token.appleTokens {
                guard let second = dead[token] else { continue }
                findings.matched.append(token)
                found.append((device, second))
                return
            }
        }
        for (device, second) in found {
            guard FeedbackRecord.shouldDropToken(second: second, registeredAt: device.registeredAt),
                let aor = registrar.bindings.binding(device.id)?.aor
            else {
                findings.newer += 1
                continue
            }
            findings.dropped += 1
            dropDevice(
                device.id, of: aor, device.token, since: UnixTime(seconds: Int64(second)), source: .feedback, now: now)
        }
        if hasMore { findings.next = cursor }
        return findings
    }
}
