/// Sole owner of a descriptor that a loop's events use. It closes the descriptor on the loop, after events that were
/// released before it.
final class LoopDescriptor {
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
