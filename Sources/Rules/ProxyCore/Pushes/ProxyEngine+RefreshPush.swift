import Addressing
import Bytes
import PushDelivery
import Registration
import Telemetry
import Timekeeping

/// Pushes that make phones refresh their contacts (RFC 8599 section 5.5), if a setting asks for them.
///
/// A walk visits all bindings within a minute, a few each second. Phones that registered at the same time are
/// therefore woken one after the other. Bindings that are not due need no timer.
extension ProxyEngine {
    private static let walkTime = 60
    private static let walkPause: Duration = .seconds(1)

    /// Starts the walk, if the setting asks for it. Called at the start, and when settings have changed.
    func armRefreshPushes(now: Moment) {
        guard settings.registrar.refreshPushLead > .zero, !registrar.isWalkingForRefresh else { return }
        registrar.isWalkingForRefresh = true
        _ = timers.schedule(.refreshWalkDue, at: now.instant + Self.walkPause)
    }

    func refreshWalkDue(now: Moment) {
        registrar.isWalkingForRefresh = false
        let lead = settings.registrar.refreshPushLead
        guard lead > .zero else { return }
        let count = registrar.bindings.walkLength / Self.walkTime + 1
        var cursor = registrar.refreshCursor
        let due = registrar.bindings.dueForRefresh(from: &cursor, count: count, lead: lead, now: now.instant)
        registrar.refreshCursor = cursor
        for device in due { askToRefresh(device, now: now) }
        armRefreshPushes(now: now)
    }

    private func askToRefresh(_ binding: DeviceID, now: Moment) {
        let device = registrar.bindings.device(of: binding)
        guard let target = registrar.bindings.forkTarget(device, through: binding, now: now.instant),
            let token = target.pushToken, let aor = registrar.bindings.binding(binding)?.aor,
            mayNotify(device, for: nil, now: now)
        else { return }
        ledger.limits.notified(device, for: nil, now: now.instant)
        counters.count(.refreshPush)
        log.debug("phone is woken to refresh its contact", [.aor: .described(aor), .device: .described(device)])
        var notification = PushNotification(expiresAt: now.date + settings.registrar.refreshPushLead)
        notification.isSilent = true
        notification.destinationType = ByteString("registration")
        notify(notification, ledger.newCode(), by: token, target, of: aor, now: now)
    }
}
