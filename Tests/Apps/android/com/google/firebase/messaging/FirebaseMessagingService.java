package com.google.firebase.messaging;

import android.app.Service;
import android.content.Intent;
import android.os.IBinder;

public abstract class FirebaseMessagingService extends Service {
    public void onMessageReceived(RemoteMessage message) {}

    public void onNewToken(String token) {}

    @Override
    public final IBinder onBind(Intent intent) {
        return null;
    }
}
