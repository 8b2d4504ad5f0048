package com.google.firebase.messaging;

import java.util.Map;

public final class RemoteMessage {
    public Map<String, String> getData() {
        return null;
    }

    public int getPriority() {
        return 0;
    }

    public int getOriginalPriority() {
        return 0;
    }
}
