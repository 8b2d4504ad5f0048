package import Addressing
import Persistence
import ProxyCore
package import ProxyRuntime
package import Reactor
import Resolver
package import ServiceEvents
package import Telemetry
import Timekeeping

/// Writes the events of the engine into the log of events, and sends them to the receiver.
///
/// - The class is `@unchecked Sendable`, because it is created before its loop runs, and later only this loop uses it.
package final class EventService: @unchecked Sendable {
    private var settings = EventSettings()
    private var wanted: Set<EventType> = []
    private var text = EventText(source: "")
    private var events: EventLog?
    private var sender: EventSender?
    private var timer: LoopTimer?
    private let store: String
    private let hasDomains: Bool
    private let loop: EventLoop
    private let log: Log
    private let resolver: DNSResolver
    /// The metrics of receivers that the settings no longer name.
    private var earlier = CounterSet()
    /// Returns the daemon's own listeners, to which events are never sent.
    package var ownEndpoints: () -> [Endpoint] = { [] }

    /// Opens the log of events, if the settings name a receiver.
    ///
    /// - Parameters:
    ///   - settings: the receiver.
    ///   - store: the path of the daemon's store, beside which the log is by default.
    ///   - hasDomains: whether the daemon serves several domains.
    ///   - loop: the shard's loop.
    ///   - log: receives messages about events that were not delivered.
    /// - Throws: an error if a secret cannot be read, or if the folder of the log cannot be used.
    package init(
        _ settings: EventSettings, store: String, hasDomains: Bool, on loop: EventLoop, log: Log
    ) throws(StartError) {
        (self.store, self.hasDomains, self.loop, self.log) = (store, hasDomains, loop, log)
        do throws(SystemError) {
            resolver = try DNSResolver(on: loop)
            timer = try LoopTimer(on: loop) { [weak self] in self?.timePassed() }
        } catch {
            throw StartError("events: \(error)")
        }
        try change(to: settings)
    }

    /// Whether the settings name a receiver.
    package var isOn: Bool { sender != nil }

    /// Sends the events that wait. The daemon calls ``start()`` after the start, and after each change of the settings.
    package func start() { sender?.wake() }

    // MARK: Settings

    /// Uses other settings. If the function throws, the old settings stay in use. Without a receiver, the events that
    /// wait stay in their folder until the settings name a receiver again.
    package func change(to settings: EventSettings) throws(StartError) {
        guard let url = settings.url else {
            close()
            self.settings = settings
            return
        }
        let secrets: EventSecrets
        do throws(EventSecretError) {
            secrets = try EventSecrets(files: settings.secretFiles)
        } catch {
            throw StartError("events: \(error.description)")
        }
        let target = EventSender.Target(url: url, place: settings.place, secrets: secrets)
        let limits = EventLogLimits(capacity: settings.maximumSize << 20, hasDomains: hasDomains)
        if let events, let sender {
            events.change(to: limits)
            sender.change(to: target, over: connector(settings))
        } else {
            try open(target, limits, settings)
        }
        self.settings = settings
        wanted = settings.wantedTypes
        text = EventText(source: settings.origin)
        events?.describe = { [text] loss, id, date in text.json(loss, id: id, at: date) }
    }

    private func open(
        _ target: EventSender.Target, _ limits: EventLogLimits, _ settings: EventSettings
    ) throws(StartError) {
        do {
            let events = try EventLog(folder: settings.folder ?? store + "-events", limits: limits, log: log)
            sender = try EventSender(events, to: target, over: connector(settings), on: loop, log: log)
            self.events = events
        } catch {
            throw StartError("events: \(error)")
        }
    }

    private func connector(_ settings: EventSettings) -> WebhookConnector {
        WebhookConnector(
            WebhookConnector.Rules(
                destinations: CallbackGuard(allowsPlain: settings.allowsPlain, allowed: settings.privateReceivers),
                authorityFile: settings.authorityFile, authoritySetting: "events.ca-file", source: settings.source),
            loop: loop, log: log, ownEndpoints: { [weak self] in self?.ownEndpoints() ?? [] },
            resolve: { [resolver] in resolver.addresses(of: $0, $1) })
    }

    // MARK: Events

    /// Appends an event to the log; ``flush()`` writes it.
    package func note(_ event: ServiceEvent) {
        guard let events, wanted.contains(EventType(of: event)) else { return }
        events.append(EventOwner(of: event), now: loop.moment) { [text] id in text.json(event, id: id) }
    }

    /// Gives the appended events to the kernel, so that they survive the end of the process.
    package func flush() {
        guard let events else { return }
        events.flush(now: loop.now)
        if events.waiting > 0 { sender?.wake() }
        // The timer writes what could not be written, and writes the last events to the disk.
        if timer?.deadline == nil { timer?.arm(at: loop.now + .seconds(1)) }
    }

    private func timePassed() {
        guard let events else { return }
        events.tellLosses(now: loop.moment)
        events.flush(now: loop.now)
        if events.waiting > 0 {
            sender?.wake()
            timer?.arm(at: loop.now + .seconds(1))
        }
    }

    /// Stops sending; the events that wait stay on the disk.
    package func close() {
        guard let sender else { return }
        earlier = figures
        earlier.set(.eventsWaiting, to: 0)
        earlier.set(.eventAge, to: 0)
        events?.flush(now: loop.now)
        sender.close()
        (self.sender, events) = (nil, nil)
    }

    // MARK: State

    package var figures: CounterSet {
        var figures = earlier
        guard let events, let sender else { return figures }
        figures.merge(events.figures)
        figures.merge(sender.figures)
        figures.set(.eventsWaiting, to: events.waiting)
        figures.set(.eventAge, to: Int((events.age(now: loop.moment.date) ?? .zero).components.seconds))
        return figures
    }

    /// The reason why events do not reach the receiver, for a minute or longer; `nil` if events reach the receiver.
    package var shortcoming: String? {
        guard let events, let trouble = sender?.trouble, loop.now - trouble.since >= Self.patience else { return nil }
        let age = (events.age(now: loop.moment.date) ?? .zero).components.seconds
        return
            "\(events.waiting) events wait for the receiver at \(settings.place), the oldest for \(age) s: \(trouble.reason)"
    }

    private static let patience: Duration = .seconds(60)
}
