/// The sole owner of a descriptor that libevent events use. The descriptor is closed on the loop's thread, after the
/// loop has freed the descriptor's events.
final class LoopDescriptor: Sendable {
    let number: Int32
    private let loop: EventLoop

    init(_ descriptor: consuming Descriptor, on loop: EventLoop) {
        number = descriptor.release()
        self.loop = loop
    }

    deinit {
        let number = number
        loop.dispose { System.close(number) }
    }
}
