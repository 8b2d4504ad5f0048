package import Addressing
package import Bytes
package import Calling
package import PushDelivery
package import Registration
package import Timekeeping

/// Receives the events of ``EventReports``, in sequence.
package protocol EventOrders {
    /// Report an event to the operator's receiver. The event is written before the messages and pushes of later orders
    /// are sent.
    mutating func tell(_ event: ServiceEvent)
}

/// Decides which events the operator's receiver gets. While ``isOn`` is false, the functions do nothing.
///
/// The parameter `caller` of a function is the caller's URI or user name. It is evaluated only if an event is reported.
package struct EventReports {
    /// Whether an operator wants events (the setting `events.url`).
    package var isOn = false

    package init() {}

    // MARK: Calls

    /// Reports that a new call waits for phones, or that a call waits again for a phone that was lost.
    package func held(
        _ call: ProxiedRequest, from caller: @autoclosure () -> ByteString?, isAgain: Bool = false, now: Moment,
        into orders: inout some EventOrders
    ) {
        guard isOn, let userCall = call.userCall, isAgain || call.marks.contains(.held) else { return }
        let wait = EventWait(
            devices: call.fork.branches.filter(\.isWaiting).compactMap(\.device),
            until: now.date + (userCall.holdUntil - now.instant), isAgain: isAgain)
        orders.tell(.callHeld(EventCall(userCall, caller(), at: now), wait))
    }

    /// Reports that a phone for which the call waited gets the INVITE.
    package func woken(
        _ device: DeviceID, for userCall: UserCall, from caller: @autoclosure () -> ByteString?, now: Moment,
        into orders: inout some EventOrders
    ) {
        guard isOn else { return }
        orders.tell(
            .callWoken(
                EventCall(userCall, caller(), at: now), device: device, after: now.date - userCall.receivedAt))
    }

    package func ended(
        _ report: EndedCallReport, from caller: @autoclosure () -> ByteString?, into orders: inout some EventOrders
    ) {
        guard isOn else { return }
        orders.tell(.callEnded(report, caller: caller()))
    }

    /// Reports the end of an earlier run's call that cannot continue. If the caller has got a final response, the earlier
    /// run has reported the end.
    package func lost(
        _ stored: StoredCall, _ userCall: StoredUserCall, callID: ByteString,
        from caller: @autoclosure () -> ByteString?, now: Moment, into orders: inout some EventOrders
    ) {
        guard isOn, stored.final.isEmpty else { return }
        let report = EndedCallReport(
            ref: userCall.callRef, callID: callID, aor: userCall.aor, receivedAt: stored.receivedAt,
            began: now.instant, ended: now.instant, endedAt: now.date,
            code: CallCode(.held, .none, .nobody, .unreachable), status: 0, device: nil, count: stored.branches.count)
        orders.tell(.callEnded(report, caller: caller()?.compacted()))
    }

    // MARK: Devices

    /// Reports the devices that a REGISTER or an app server has added.
    package func added(
        _ facts: [RegistrationFact], of aor: AddressOfRecord, _ bindings: borrowing BindingTable, now: Moment,
        into orders: inout some EventOrders
    ) {
        guard isOn else { return }
        for case .added(let binding, let isPush) in facts {
            // If a binding is a further flow of a known device, it is no new device.
            let device = bindings.device(of: binding)
            guard device == binding else { continue }
            orders.tell(.deviceRegistered(device, of: aor.compacted(), isPush: isPush, at: now.date))
        }
    }

    /// The devices that a REGISTER, an operator or an app server removes, with the reasons. If a device loses only one
    /// of several flows, it is not removed.
    ///
    /// - Parameters:
    ///   - plan: the changes of the bindings, before they are applied.
    ///   - isOrdered: whether an operator or an app server, and not a REGISTER, removes the devices.
    ///   - bindings: the bindings before the plan.
    /// - Returns: the reason for each removed device; empty if no events are wanted.
    package func removals(
        by plan: RegisterPlan, isOrdered: Bool, _ bindings: borrowing BindingTable
    ) -> [DeviceID: DeviceRemoval] {
        guard isOn, !plan.removed.isEmpty else { return [:] }
        var removals: [DeviceID: DeviceRemoval] = [:]
        for device in plan.removed where bindings.device(of: device) == device {
            removals[device] = isOrdered ? .ordered : .signedOut
        }
        for case .superseded(let device, let other) in plan.facts where removals[device] != nil {
            removals[device] = .replaced(by: other)
        }
        return removals
    }

    package func removed(
        _ device: DeviceID, of aor: AddressOfRecord, _ reason: DeviceRemoval, now: Moment,
        into orders: inout some EventOrders
    ) {
        guard isOn else { return }
        orders.tell(.deviceRemoved(device, of: aor.compacted(), reason, at: now.date))
    }

    // MARK: Push providers

    package func push(_ changes: [PushAppChange], now: Moment, into orders: inout some EventOrders) {
        guard isOn else { return }
        for change in changes { orders.tell(.push(change, at: now.date)) }
    }
}
